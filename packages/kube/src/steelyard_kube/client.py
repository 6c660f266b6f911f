"""The Cluster protocol over HTTP: raw objects to and from any Kubernetes API server.

Thin on purpose: one call is one request, nothing is retried (the work queue does that, with back-off), and a
request whose outcome is unknown raises Unreachable or ServerTimeout.
"""

import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import aiohttp
import orjson
from yarl import URL

from steelyard_common.connections import TrackingConnector
from steelyard_common.types import Json, sequence
from steelyard_kube.cluster import LogLine, ObjectList, Patch, Resource, WatchEvent
from steelyard_kube.errors import ApiError, Unreachable, error_from_status
from steelyard_kube.exec_login import Credential, Login
from steelyard_kube.kubeconfig import SERVICE_ACCOUNT, KubeconfigError, Token, load
from steelyard_kube.resource import PODS
from steelyard_kube.served import KindVersion, list_kinds

_PAGE = 500  # objects per list request, as kubectl
_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"
_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10)  # a quiet watch is the informer's concern
_TLS_SETTINGS = re.compile(r" ssl:(?:<[^>]*>|\w+)")


class Content(Protocol):
    """Content of an answer that comes in pieces."""

    def iter_any(self) -> AsyncIterator[bytes]: ...


class Answer(Protocol):
    """An answer of a server, whatever carries it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> Content: ...

    async def read(self) -> bytes: ...


class Carrier(Protocol):
    """Transport of requests to a server in the same process, in place of HTTP."""

    async def ask(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> Answer:
        """Return an answer that comes whole, of any status."""
        ...

    def send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, content_type: str
    ) -> AbstractAsyncContextManager[Answer]:
        """Yield the answer, of any status; leaving the block ends a stream."""
        ...


async def connect(
    kubeconfig: Path | None = None,
    *,
    context: str | None = None,
    in_cluster: bool = False,
    account: Path = SERVICE_ACCOUNT,
) -> "RestCluster":
    """A client of the cluster that a kubeconfig names; without one, as kubectl and Pods find it.

    `in_cluster` takes the account of the Pod, from the folder `account`. Raises KubeconfigError.
    """
    access = load(kubeconfig, context=context, in_cluster=in_cluster, account=account)
    return RestCluster(access.url, tls=access.tls, token=access.token, login=access.login)


class RestCluster:
    """`tls` carries the authorities trusted and any client certificate; `token` is asked at each request.

    `login` gives credentials that end, and others where the API refuses one. A `carrier` takes requests to a server
    in this process; without one they go over HTTP. `page` is the number of objects per request of a list. `manager`
    is the field manager of writes; without one the API takes the client's name, and the embedded API keeps none.
    """

    def __init__(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | None = None,
        token: Token | str | None = None,
        login: Login | None = None,
        carrier: Carrier | None = None,
        page: int = _PAGE,
        manager: str = "",
    ) -> None:
        self.url = url.rstrip("/")
        self._tls = tls
        self._token: Token | None = (lambda: token) if isinstance(token, str) else token
        self._login = login
        self._page = page
        self._written = {"fieldManager": manager} if manager else {}
        self._carrier = carrier
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        return await self._json("GET", resource.path(namespace, quote(name)))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> ObjectList:
        items: list[Json] = []
        version = ""
        pages = self.pages(resource, namespace, label_selector=label_selector, field_selector=field_selector)
        async for page in pages:
            items += page.items
            # A watch goes on from the version of the first page: later pages are of the same snapshot.
            version = version or page.resource_version
        return ObjectList(items, version)

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[ObjectList]:
        path, query = resource.path(namespace), _selectors(label_selector, field_selector)
        query["limit"] = str(self._page)
        while True:
            page = await self._json("GET", path, query=query)
            items: list[Json] = sequence(page, "items")
            for item in items:  # the API says what a list holds only once
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
            metadata = page["metadata"]
            yield ObjectList(items, metadata["resourceVersion"])
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def create(self, resource: Resource, obj: Json) -> Json:
        namespace = obj["metadata"].get("namespace")
        if resource.namespaced and not namespace:
            raise ValueError(f"a new {resource.kind} needs a namespace")
        return await self._json(
            "POST", resource.path(namespace), _with_type(resource, obj), query=self._written
        )

    async def replace(self, resource: Resource, obj: Json, *, subresource: str = "") -> Json:
        metadata = obj["metadata"]
        path = resource.path(metadata.get("namespace"), quote(metadata["name"]), subresource)
        return await self._json("PUT", path, _with_type(resource, obj), query=self._written)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Json:
        path = resource.path(namespace, quote(name), subresource)
        content_type = _MERGE_PATCH if isinstance(patch, dict) else _JSON_PATCH
        return await self._json("PATCH", path, patch, query=self._written, content_type=content_type)

    async def apply(
        self, resource: Resource, obj: Json, *, manager: str, force: bool = False, dry_run: bool = False
    ) -> Json:
        """Server-side apply: `manager` has the fields of `obj`, and no others. Conflict where another manager has one
        of them with another value, unless forced."""
        metadata = obj["metadata"]
        path = resource.path(metadata.get("namespace"), quote(metadata["name"]))
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        if dry_run:
            query["dryRun"] = "All"
        return await self._json(
            "PATCH", path, _with_type(resource, obj), query=query, content_type=_APPLY_PATCH
        )

    async def group_versions(self) -> dict[str, Sequence[str]]:
        """The versions that the server has, by API group."""
        groups = sequence(await self._json("GET", "/apis"), "groups")
        return {group["name"]: [item["version"] for item in sequence(group, "versions")] for group in groups}

    async def list_kinds(self) -> Sequence[KindVersion]:
        """All kinds that the server has, in all versions."""
        return await list_kinds(lambda path: self._json("GET", path))

    async def plurals(self, group: str, version: str) -> Sequence[str]:
        """The kinds that a group has in one version, by their plural names."""
        resources = sequence(await self._json("GET", f"/apis/{quote(group)}/{quote(version)}"), "resources")
        return [item["name"] for item in resources]

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> None:
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        # A namesake that was created meanwhile has another uid, and is not deleted: 409.
        if known := {name: value for name, value in preconditions.items() if value is not None}:
            options["preconditions"] = known
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        await self._json("DELETE", resource.path(namespace, quote(name)), options)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int | None = None,
    ) -> AsyncIterator[WatchEvent]:
        query = _selectors(label_selector, field_selector)
        query |= {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
        if timeout_seconds is not None:
            query["timeoutSeconds"] = str(timeout_seconds)
        async with self._answer(
            "GET", resource.path(namespace), query=query, timeout=_WATCH_TIMEOUT
        ) as answer:
            async for line in _lines(answer.content):
                event = orjson.loads(line)
                # A watch has answered 200 long before: its errors, such as 410 Gone, come as events.
                if event["type"] == "ERROR":
                    raise error_from_status(event["object"])
                yield WatchEvent(event["type"], event["object"])

    async def logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        since: str = "",
        tail: int | None = None,
    ) -> AsyncIterator[LogLine]:
        given: dict[str, Any] = {"container": container, "sinceTime": since, "tailLines": tail}
        query = {name: str(value) for name, value in given.items() if value not in ("", None)}
        query |= {name: "true" for name, given in (("follow", follow), ("previous", previous)) if given}
        # The only way to go on after a broken connection without lines twice: `sinceTime` knows whole seconds.
        query["timestamps"] = "true"
        timeout = _WATCH_TIMEOUT if follow else _TIMEOUT
        path = PODS.path(namespace, quote(pod), "log")
        async with self._answer("GET", path, query, timeout=timeout) as answer:
            async for line in _lines(answer.content, unended=True):
                moment, _, text = line.partition(b" ")
                yield LogLine(moment.decode(errors="replace"), text.decode(errors="replace"))

    async def close(self) -> None:
        """Close the connections; requests after it are Unreachable, also those of an informer that tries again."""
        self._closed = True
        if self._session:
            await self._session.close()

    async def _json(
        self,
        method: str,
        path: str,
        body: Json | Patch | None = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = _JSON,
    ) -> Json:
        data = None if body is None else orjson.dumps(body)
        parsed: Json
        if self._carrier is not None:
            # Nothing is left open by an answer within the process, and without contexts it costs a sixth less.
            self._ensure_open()
            carried = await self._carrier.ask(method, path, query or {}, data or b"", content_type)
            content = await carried.read()
            if carried.status >= 400:
                raise _error(carried, content)
            parsed = orjson.loads(content)
            return parsed
        async with self._answer(method, path, query, data, content_type) as answer:
            parsed = orjson.loads(await answer.read())
            return parsed

    async def bearer(self) -> str:
        """Return the token with which requests log in at this moment; empty where there is none."""
        return (await self._credentials())[0]

    async def _credentials(self) -> tuple[str, Credential | None]:
        credential = await self._login.current() if self._login else None
        try:
            # Asked at each request: tokens of Pods are replaced in their file before they end.
            return credential.token if credential else self._token() if self._token else "", credential
        except KubeconfigError as error:
            raise Unreachable(f"{self.url}: {error}") from error

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        data: bytes | None = None,
        content_type: str = _JSON,
        timeout: aiohttp.ClientTimeout = _TIMEOUT,
    ) -> AsyncIterator[Answer]:
        """A successful answer; every other outcome is an ApiError."""
        if self._carrier is not None:
            self._ensure_open()
            async with self._carrier.send(method, path, query or {}, data or b"", content_type) as carried:
                if carried.status >= 400:
                    raise _error(carried, await carried.read())
                yield carried
            return
        url = URL(f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}", encoded=True)
        headers = {"Accept": _JSON}
        if data is not None:
            headers["Content-Type"] = content_type
        for last in (False, True):
            token, credential = await self._credentials()
            if token:
                headers["Authorization"] = f"Bearer {token}"
            tls = (credential.tls if credential else None) or self._tls or True
            try:
                async with self._open().request(
                    method, url, data=data, headers=headers, timeout=timeout, ssl=tls
                ) as answer:
                    if answer.status == 401 and self._login and credential and not last:
                        self._login.note_refusal(
                            credential
                        )  # nothing was done: the request may be sent again
                        continue
                    if answer.status >= 400:
                        raise _error(answer, await answer.read())
                    yield answer
                    return
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise Unreachable(f"{method} {url.path}: {_words(error)}") from error

    def _ensure_open(self) -> None:
        if self._closed:
            raise Unreachable("the client is closed")

    def _open(self) -> aiohttp.ClientSession:
        """The session, which needs a running loop and therefore begins with the first request."""
        if self._closed:
            raise Unreachable(f"{self.url}: the client is closed")
        if self._session is None:
            # No limit on connections: each watch holds one all the time, and would keep short requests waiting.
            connector = TrackingConnector(limit=0, ssl=self._tls if self._tls else True)
            self._session = aiohttp.ClientSession(
                connector=connector, trust_env=False, headers={"User-Agent": "steelyard"}
            )
        return self._session


async def _lines(content: Content, *, unended: bool = False) -> AsyncGenerator[bytes, None]:
    """Whole lines of any length; StreamReader.readline has a limit that large objects pass. `unended`: also a last
    one without its end."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
        # A watch may be quiet for minutes, and must not keep thousands of lines for so long.
        del chunk, lines
    if rest and unended:
        yield rest


def _error(answer: Answer, body: bytes) -> ApiError:
    try:
        status: Any = orjson.loads(body)
    except orjson.JSONDecodeError:  # a proxy's page, or the plain text of an unknown path
        status = {"message": body[:500].decode(errors="replace")}
    # A proxy answers in JSON of its own: only an object's parts of the right kind are a Status's.
    status = status if isinstance(status, dict) else {}
    details = status.get("details") if isinstance(status.get("details"), dict) else None
    # API servers that are overloaded say when to come again in a header, proxies before them too.
    wait = answer.headers.get("Retry-After", "")
    if re.fullmatch("[0-9]{1,9}", wait):
        details = {"retryAfterSeconds": int(wait), **(details or {})}
    return error_from_status({**status, "details": details, "code": answer.status})


def _selectors(labels: str, fields: str) -> dict[str, str]:
    named = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in named.items() if value}


def _with_type(resource: Resource, obj: Json) -> Json:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _words(error: Exception) -> str:
    """Return the words of a failed connection, without the object of its TLS settings that aiohttp names."""
    return _TLS_SETTINGS.sub("", str(error)) or type(error).__name__
