"""An HTTP server over the in-memory cluster, so that the client is tested through real requests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
import pytest
from aiohttp import web

from steelyard_common.types import Json
from steelyard_kube.client import RestCluster
from steelyard_kube.cluster import Resource
from steelyard_kube.errors import ApiError
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import BUILT_IN, DYFF
from steelyard_kube.simulation.contract import WIDGETS

_RESOURCES = {(resource.group, resource.plural): resource for resource in (*BUILT_IN, *DYFF, WIDGETS)}


@dataclass
class Server:
    """Objects behind the address, the requests that arrived, and how many list items a page has."""

    cluster: MemoryCluster
    url: str = ""
    page: int = 500
    requests: list[tuple[str, str, dict[str, str], Json]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        resource, namespace, name, subresource = _parts(request.path)
        body = orjson.loads(await request.read() or b"{}")
        self.requests.append((request.method, request.path, dict(request.headers), body))
        try:
            if "watch" in request.query:
                return await self._watch(request, resource, namespace)
            answer = await self._call(request, resource, namespace, name, subresource, body)
        except ApiError as error:
            status = {
                "kind": "Status",
                "code": error.status,
                "reason": error.reason,
                "message": error.message,
            }
            return web.json_response(status, status=error.status)
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    async def _call(
        self,
        request: web.Request,
        resource: Resource,
        namespace: str | None,
        name: str,
        subresource: str,
        body: Any,
    ) -> Json:
        match request.method:
            case "GET" if name:
                return await self.cluster.get(resource, name, namespace)
            case "GET":
                return await self._list(request, resource, namespace)
            case "POST":
                return await self.cluster.create(resource, body)
            case "PUT":
                return await self.cluster.replace(resource, body, subresource=subresource)
            case "PATCH":
                is_list = request.content_type == "application/json-patch+json"
                assert isinstance(body, list if is_list else dict)
                return await self.cluster.patch(resource, name, body, namespace, subresource=subresource)
            case _:
                preconditions = body.get("preconditions", {})
                await self.cluster.delete(
                    resource,
                    name,
                    namespace,
                    uid=preconditions.get("uid"),
                    resource_version=preconditions.get("resourceVersion"),
                    grace_seconds=body.get("gracePeriodSeconds"),
                    propagation=body["propagationPolicy"],
                )
                return {"kind": "Status", "status": "Success"}

    async def _list(self, request: web.Request, resource: Resource, namespace: str | None) -> Json:
        objects = await self.cluster.list(resource, namespace, **_selectors(request))
        start = int(request.query.get("continue", "0"))
        end = start + min(self.page, int(request.query["limit"]))
        for item in objects.items:
            del item["kind"], item["apiVersion"]
        metadata = {"resourceVersion": objects.resource_version}
        if end < len(objects.items):
            metadata["continue"] = str(end)
        return {"kind": f"{resource.kind}List", "metadata": metadata, "items": objects.items[start:end]}

    async def _watch(
        self, request: web.Request, resource: Resource, namespace: str | None
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        seconds = int(request.query["timeoutSeconds"]) if "timeoutSeconds" in request.query else None
        events = self.cluster.watch(
            resource,
            namespace,
            resource_version=request.query["resourceVersion"],
            timeout_seconds=seconds,
            **_selectors(request),
        )
        try:
            async with aclosing(cast("Any", events)):
                async for event in events:
                    await answer.write(orjson.dumps({"type": event.type, "object": event.object}) + b"\n")
        except ApiError as error:
            status = {
                "kind": "Status",
                "code": error.status,
                "reason": error.reason,
                "message": error.message,
            }
            await answer.write(orjson.dumps({"type": "ERROR", "object": status}) + b"\n")
        return answer


def _parts(path: str) -> tuple[Resource, str | None, str, str]:
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name, subresource, *_ = (*rest[1:], "", "")
    return _RESOURCES[(group, rest[0])], namespace, name, subresource


def _selectors(request: web.Request) -> dict[str, str]:
    return {
        "label_selector": request.query.get("labelSelector", ""),
        "field_selector": request.query.get("fieldSelector", ""),
    }


Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serve a handler of requests on loopback; the answer is its address."""
    runners: list[web.ServerRunner] = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(cast("Any", runner))
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def server(serve: Serve) -> Server:
    server = Server(MemoryCluster())
    server.url = await serve(server.answer)
    return server


@pytest.fixture
async def rest(server: Server) -> AsyncIterator[RestCluster]:
    cluster = RestCluster(server.url, token="secret")
    yield cluster
    server.cluster.end_watches()
    await cluster.close()
