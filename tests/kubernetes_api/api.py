"""A plain HTTP client of an API server, by kubeconfig: the tests check statuses, headers and bodies themselves."""

import asyncio
import base64
import io
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

from steelyard_common.types import Json

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PATIENCE = 120.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    warnings: list[str]
    raw: bytes

    @property
    def json(self) -> Json:
        content: Json = orjson.loads(self.raw)
        return content

    @property
    def message(self) -> str:
        return str(self.json.get("message", ""))

    @property
    def version(self) -> str:
        return str(self.json["metadata"]["resourceVersion"])

    def causes(self) -> dict[str, str]:
        """Return the causes of a refusal by field."""
        return {
            cause["field"]: cause["message"] for cause in (self.json.get("details") or {}).get("causes", [])
        }

    def ok(self, *statuses: int) -> "Answer":
        assert self.status in (statuses or (200, 201)), self.raw[:2000]
        return self


class Api:
    """Requests of one test."""

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        self.url: str = cluster["server"]
        self.headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self.tls = tls_context(cluster, user)
        # Without the administrator's certificate, which a real server believes before any token.
        self.others = tls_context(cluster, {})
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        type: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
    ) -> Answer:
        headers = self.headers | {"Accept": accept}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = body if isinstance(body, bytes) else None if body is None else orjson.dumps(body)
        if data is not None:
            headers["Content-Type"] = type
        sent = None if data is None else io.BytesIO(data)  # aiohttp warns of large bytes
        session = self.session(own=token is None)
        async with session.request(method, self.url + path, data=sent, headers=headers) as answer:
            warnings = [_warning(header) for header in answer.headers.getall("Warning", [])]
            raw = await answer.read()
            return Answer(answer.status, dict(answer.headers), warnings, raw)

    async def get(self, path: str, accept: str = "application/json") -> Answer:
        return await self.request("GET", path, accept=accept)

    async def post(self, path: str, body: object) -> Answer:
        return await self.request("POST", path, body)

    async def put(self, path: str, body: object) -> Answer:
        return await self.request("PUT", path, body)

    async def merge(self, path: str, patch: Json) -> Answer:
        return await self.request("PATCH", path, patch, type=MERGE)

    async def delete(self, path: str, options: Json | None = None) -> Answer:
        return await self.request("DELETE", path, options)

    @asynccontextmanager
    async def watch(self, path: str, accept: str = "application/json") -> AsyncIterator["Events"]:
        headers = self.headers | {"Accept": accept}
        async with self.session().get(self.url + path, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            yield Events(answer)

    async def eventually(
        self, probe: Callable[[], Awaitable[bool]], what: str = "", seconds: float = PATIENCE
    ) -> None:
        """Ask until it is so: garbage collection of a real server takes its time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not await probe():
            assert loop.time() < end, f"not within {seconds:g} s: {what}"
            await asyncio.sleep(0.05)

    async def gone(self, path: str) -> None:
        async def probe() -> bool:
            return (await self.get(path)).status == 404

        await self.eventually(probe, f"{path} gone")

    def session(self, *, own: bool = True) -> aiohttp.ClientSession:
        """The administrator's connections, or those of users with a token."""
        if own not in self._sessions:
            connector = aiohttp.TCPConnector(ssl=self.tls if own else self.others, limit=0)
            self._sessions[own] = aiohttp.ClientSession(connector=connector, read_bufsize=1 << 20)
        return self._sessions[own]

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()


class Events:
    """The events of one watch, read one by one."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self, seconds: float = PATIENCE) -> Json:
        async with asyncio.timeout(seconds):
            line = await self._answer.content.readline()
        assert line, "the watch ended"
        event: Json = orjson.loads(line)
        return event

    async def take(self, count: int) -> list[str]:
        """Types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [f"{event['type']} {event['object']['metadata'].get('name', '')}".strip() for event in events]

    async def rest(self) -> list[Json]:
        """All until the server ends the watch."""
        content = await self._answer.read()
        return [orjson.loads(line) for line in content.splitlines()]


def _warning(header: str) -> str:
    """The text of `299 - "text"`."""
    return header.partition('"')[2].rpartition('"')[0].replace('\\"', '"')


def tls_context(cluster: Json, user: Json) -> ssl.SSLContext:
    """TLS by the fields of a kubeconfig; an empty `user` shows no certificate."""
    context = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
    if data := cluster.get("certificate-authority-data"):
        context.load_verify_locations(cadata=base64.b64decode(data).decode())
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    elif "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as file:
            file.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
            file.write(base64.b64decode(user["client-key-data"]))
            file.flush()
            context.load_cert_chain(file.name)
    return context


# ---- objects


def config_map(name: str, data: Json | None = None, **metadata: Any) -> Json:
    obj: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return obj | ({"data": data} if data is not None else {})


def pod(name: str, **spec: Any) -> Json:
    containers = [{"name": "main", "image": "localhost/none:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def job(name: str, **spec: Any) -> Json:
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "localhost/none"}]}
    }
    spec = {"suspend": True, "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def owned_by(owner: Json, **more: Any) -> list[Json]:
    """Owner references to one object."""
    names = {key: owner["metadata"][key] for key in ("name", "uid")}
    return [{"apiVersion": owner["apiVersion"], "kind": owner["kind"], **names, **more}]


def definition(group: str, schema: Json, **version: Any) -> Json:
    """A CustomResourceDefinition of Widgets in a group of the test's own."""
    first = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    first |= {"schema": {"openAPIV3Schema": schema}, **version}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [first]},
    }
