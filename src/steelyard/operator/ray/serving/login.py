"""Dashboards of Ray clusters for those who may see them: a proxy that asks the API about each caller.

A caller shows a token of Kubernetes: programs as a bearer token, browsers in a cookie that the page of the login sets.
A user who may get the RayCluster may see its dashboard; a request that may change something, such as one that submits
a job, needs the right to update it. The dashboard belongs to users' code: it never sees the token, and each one has a
host, and so an origin, of its own wherever there is a domain.
"""

import asyncio
import html
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from steelyard.operator.ray.dashboards import dashboard_host, login_path
from steelyard.operator.ray.owned import DASHBOARD, head_service
from steelyard.operator.ray.serving.reviews import Reviews
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.connections import TrackingConnector
from steelyard_common.types import Json, mapping
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError
from steelyard_kube.informer import Informer
from steelyard_kube.objects import read_status
from steelyard_kube.resource import RAY_CLUSTERS

_log = logging.getLogger(__name__)
COOKIE = "steelyard-token"
LOGIN = ".steelyard/login"
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_CHANGING = ("api/actors/kill", "worker/", "memory_profile", "task/traceback", "task/cpu_profile")
"""Beginnings of paths by which Ray's dashboard changes something although the method is GET: it kills actors, or stops
processes for a profile."""
_HOP = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "content-length", "host"),
    }
)
_OURS = frozenset(("authorization", "cookie", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"))
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=300)
_TOKEN_BYTES = 8 << 10


class Target(NamedTuple):
    """Cluster that a request is for, the path below its dashboard, and that of the dashboard below the host."""

    cluster: Json
    path: str
    base: str


@asynccontextmanager
async def login_app(
    cluster: Cluster, settings: RaySettings, reviews: Reviews
) -> AsyncIterator[web.Application]:
    """Yield the application; its list of clusters is kept up to date while the block runs."""
    clusters: dict[tuple[str, str], Json] = {}

    def note_change(old: Json | None, new: Json | None) -> None:
        obj = new or old
        if obj is None:
            return
        key = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if new is None:
            clusters.pop(key, None)
        else:
            clusters[key] = new

    informer = Informer(cluster, RAY_CLUSTERS, on_change=note_change, optional=True, transform=_keep_address)
    follow = asyncio.create_task(informer.run())
    try:
        async with aiohttp.ClientSession(
            connector=TrackingConnector(),
            timeout=_TIMEOUT,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:
            login = _Login(settings, reviews, clusters, session)
            app = web.Application(client_max_size=0)
            app.router.add_route("*", "/{path:.*}", login.answer)
            yield app
    finally:
        follow.cancel()
        await asyncio.gather(follow, return_exceptions=True)


def _keep_address(obj: Json) -> Json:
    """Return the part of a cluster that says where its dashboard is: all clusters are kept in memory."""
    kept = {field: obj["metadata"][field] for field in ("name", "namespace", "uid", "resourceVersion")}
    return {**obj, "metadata": kept, "spec": {}, "status": {"head": mapping(read_status(obj), "head")}}


def find_target(
    clusters: Mapping[tuple[str, str], Json], settings: RaySettings, host: str, path: str
) -> Target | None:
    """Return the cluster of a host, or where there is no domain that of the path's first two parts."""
    if settings.domain:
        name = host.partition(":")[0].lower()
        for cluster in clusters.values():
            if dashboard_host(cluster, settings).lower() == name:
                return Target(cluster, path.lstrip("/"), "/")
        return None
    namespace, _, rest = path.lstrip("/").partition("/")
    name, _, rest = rest.partition("/")
    chosen = clusters.get((namespace, name))
    return Target(chosen, rest, login_path(chosen)) if chosen else None


class _Login:
    """Answers each request."""

    def __init__(
        self,
        settings: RaySettings,
        reviews: Reviews,
        clusters: Mapping[tuple[str, str], Json],
        session: aiohttp.ClientSession,
    ) -> None:
        self._settings, self._reviews = settings, reviews
        self._clusters, self._session = clusters, session

    async def answer(self, request: web.Request) -> web.StreamResponse:
        try:
            target = self._target(request)
            if target.path == LOGIN:
                return await self._login(request, target)
            if (refusal := await self._refusal(request, target)) is not None:
                return refusal
        except ApiError as error:
            _log.warning("a dashboard's login: %s", error)
            return web.Response(text="the API did not answer\n", status=503)
        except web.HTTPException as error:
            return web.Response(text=f"{error.reason}\n", status=error.status)
        try:
            if _is_websocket(request):
                return await self._websocket(request, target)
            return await self._forward(request, target)
        except (aiohttp.ClientError, OSError) as error:
            return web.Response(text=f"the dashboard does not answer: {error}\n", status=502)

    def _target(self, request: web.Request) -> Target:
        target = find_target(self._clusters, self._settings, request.host, request.rel_url.raw_path)
        if target is None:
            raise web.HTTPNotFound(reason="there is no such dashboard")
        if {".", ".."} & set(unquote(target.path).split("/")):
            # Its target would be known only after the decision.
            raise web.HTTPBadRequest(reason="the path has a part . or ..")
        return target

    async def _refusal(self, request: web.Request, target: Target) -> web.Response | None:
        """Return None where the caller may do what the request does."""
        metadata = target.cluster["metadata"]
        token, by_cookie = _read_token(request)
        caller = await self._reviews.caller(token) if token else None
        if caller is None:
            return _ask(request, target)
        if by_cookie and not _same_origin(request):
            return web.Response(text="the request comes from another page\n", status=403)
        verb = "get" if _only_reads(request, target) else "update"
        if await self._reviews.may(caller, verb, metadata["namespace"], metadata["name"]):
            return None
        where = f"RayCluster {metadata['namespace']}/{metadata['name']}"
        text = f"{caller.name} may not {verb} {where}: the right {verb} on rayclusters of ray.io is needed\n"
        return web.Response(text=text, status=403)

    async def _login(self, request: web.Request, target: Target) -> web.Response:
        if request.method != "POST":
            return _page(target, "")
        if not _same_origin(request):
            return web.Response(text="the request comes from another page\n", status=403)
        body = await request.clone(client_max_size=_TOKEN_BYTES * 2).post()
        token = str(body.get("token") or "").strip()
        if not token or len(token) > _TOKEN_BYTES or await self._reviews.caller(token) is None:
            return _page(target, "The API does not know this token, or it has ended.", status=401)
        answer = web.Response(status=303, headers={"Location": target.base})
        secure = request.headers.get("X-Forwarded-Proto", request.scheme) == "https"
        answer.set_cookie(COOKIE, token, httponly=True, secure=secure, samesite="Strict", path=target.base)
        return answer

    async def _forward(self, request: web.Request, target: Target) -> web.StreamResponse:
        async with self._session.request(
            request.method,
            _address(request, target, "http"),
            headers=_headers(request.headers),
            data=request.content if request.can_read_body else None,
            allow_redirects=False,
        ) as answer:
            # A cookie that the dashboard sets could replace the login's own, or another cluster's.
            kept = CIMultiDict(
                (name, value)
                for name, value in answer.headers.items()
                if name.lower() not in _HOP and name.lower() != "set-cookie"
            )
            location = kept.get("Location", "")
            if location.startswith("/") and not location.startswith("//"):
                kept["Location"] = target.base + location.lstrip("/")
            response = web.StreamResponse(status=answer.status, headers=kept)
            if (length := answer.headers.get("Content-Length")) is not None:
                response.content_length = int(length)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    async def _websocket(self, request: web.Request, target: Target) -> web.StreamResponse:
        async with self._session.ws_connect(
            _address(request, target, "ws"), headers=_headers(request.headers)
        ) as inner:
            outer = web.WebSocketResponse()
            await outer.prepare(request)
            tasks = [asyncio.create_task(_carry(inner, outer)), asyncio.create_task(_carry(outer, inner))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await outer.close()
            return outer


async def _carry(
    source: aiohttp.ClientWebSocketResponse | web.WebSocketResponse,
    sink: aiohttp.ClientWebSocketResponse | web.WebSocketResponse,
) -> None:
    async for message in source:
        if message.type is aiohttp.WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type is aiohttp.WSMsgType.BINARY:
            await sink.send_bytes(message.data)


def _address(request: web.Request, target: Target, scheme: str) -> URL:
    """Return the dashboard's address: that of the head's Pod, which needs no resolver of the cluster's names."""
    metadata, head = target.cluster["metadata"], mapping(read_status(target.cluster), "head")
    host = str(head.get("podIP") or f"{head_service(target.cluster)}.{metadata['namespace']}.svc")
    place = f"[{host}]" if ":" in host else host
    query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
    return URL(f"{scheme}://{place}:{DASHBOARD}/{target.path}{query}", encoded=True)


def _headers(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Return the headers for the dashboard: none that reveals who calls, or belongs to one connection."""
    named = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    dropped = _HOP | _OURS | named
    return CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in dropped and not name.lower().startswith("sec-websocket")
    )


def _read_token(request: web.Request) -> tuple[str, bool]:
    """Return the token, and whether a browser sends it by itself."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip(), False
    return request.cookies.get(COOKIE, ""), True


def _same_origin(request: web.Request) -> bool:
    """Return whether a page of the same host sends the request; browsers say so where it may change something."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return request.method in _READING and not _is_websocket(request)
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc.lower() == request.host.lower()


def _only_reads(request: web.Request, target: Target) -> bool:
    return request.method in _READING and not unquote(target.path).lstrip("/").startswith(_CHANGING)


def _is_websocket(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


def _ask(request: web.Request, target: Target) -> web.Response:
    """Ask for a login: browsers by a page, programs by the header."""
    if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
        return _page(target, "", status=401)
    text = "a token of Kubernetes is needed: Authorization: Bearer TOKEN\n"
    return web.Response(text=text, status=401, headers={"WWW-Authenticate": "Bearer"})


def _page(target: Target, fault: str, *, status: int = 200) -> web.Response:
    metadata = target.cluster["metadata"]
    name = html.escape(f"{metadata['namespace']}/{metadata['name']}")
    said = f"<p role=alert>{html.escape(fault)}</p>" if fault else ""
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Dashboard of {name}</title>"
        f"<h1>Dashboard of RayCluster {name}</h1>{said}"
        f'<form method=post action="{html.escape(target.base)}{LOGIN}"><label>Token of Kubernetes '
        "<input name=token type=password autocomplete=off required></label> <button>Show</button></form>"
        "<p>Such as that of <code>kubectl create token ACCOUNT</code>.</p></html>"
    )
    headers = {"Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'"}
    return web.Response(text=text, status=status, content_type="text/html", headers=headers)
