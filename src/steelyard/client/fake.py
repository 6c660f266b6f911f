"""A platform in memory, for tests of programs that use the client: `fake.client()` talks to it, nothing else does.

It answers as the API does where a client can tell the difference: keys of repeated requests, pages, uploads, downloads.
It judges nothing and runs nothing; a test says what becomes of entities with `put`.
"""

import base64
import hashlib
import json
import re
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from steelyard.client.client import AsyncClient, Client
from steelyard.client.pages import MORE
from steelyard.client.retries import Retries
from steelyard.schema.base import DyffEntity
from steelyard.schema.entities import PLURALS
from steelyard.types import Json

Answer = Callable[[], httpx.Response]
Trouble = Callable[[Answer], httpx.Response]
ENDPOINT, TOKEN, SESSION_TOKEN = "http://fake/v0", "secret", "session-secret"
BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)
AT_ONCE = Retries(first=0.0)
_KINDS = {plural: kind for kind, plural in PLURALS.items()}
_ROUTES = [
    ("POST", r"/(\w+)", "_create"),
    ("GET", r"/(\w+)", "_query"),
    ("GET", r"/(\w+)/(\w+)", "_get"),
    ("PUT", r"/(\w+)/(\w+)/(delete|terminate)", "_end"),
    ("PATCH", r"/(\w+)/(\w+)/labels", "_label"),
    ("GET", r"/(\w+)/(\w+)/documentation", "_documentation"),
    ("PATCH", r"/(\w+)/(\w+)/documentation", "_document"),
    ("GET", r"/(\w+)/(\w+)/upload/(.+)", "_uplink"),
    ("POST", r"/(\w+)/(\w+)/finalize", "_finalize"),
    ("GET", r"/(\w+)/(\w+)/downlinks", "_downlinks"),
    ("GET", r"/(\w+)/(\w+)/evidence", "_evidence"),
    ("GET", r"/(\w+)/(\w+)/ready", "_ready"),
    ("POST", r"/(\w+)/(\w+)/token", "_token"),
    ("POST", r"/(\w+)/(\w+)/infer/(.+)", "_infer"),
]


def refused(status: int, reason: str = "Unavailable", **headers: str) -> Trouble:
    """The next request is not carried out, and answered so."""
    content = {"detail": f"there is trouble: {reason}", "reason": reason}
    return lambda _: httpx.Response(status, json=content, headers=headers)


def unreachable(_: Answer) -> httpx.Response:
    """The next request finds nobody."""
    raise httpx.ConnectError("connection refused")


def lost(answer: Answer) -> httpx.Response:
    """The next request is carried out, and its answer is lost."""
    answer()
    raise httpx.ReadError("connection reset")


@dataclass
class FakePlatform:
    """`trouble` is what the next requests meet; `requests` have been made; `page` is the most that a page holds."""

    trouble: deque[Trouble] = field(default_factory=deque)
    requests: list[httpx.Request] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    page: int = 10_000
    session_token: str = SESSION_TOKEN
    _entities: dict[str, Json] = field(default_factory=dict)
    _keys: dict[str, str] = field(default_factory=dict)

    def client(self, retries: Retries = AT_ONCE) -> Client:
        http = httpx.Client(transport=httpx.MockTransport(self))
        return Client(ENDPOINT, TOKEN, retries=retries, http=http)

    def async_client(self, retries: Retries = AT_ONCE) -> AsyncClient:
        transport = httpx.MockTransport(self)
        http, files = httpx.AsyncClient(transport=transport), httpx.Client(transport=transport)
        return AsyncClient(ENDPOINT, TOKEN, retries=retries, http=http, files=files)

    def put(self, entity: DyffEntity, **changes: str | None) -> None:
        """What the platform makes of an entity."""
        self._entities[entity.id] = {**entity.dump(), **changes}

    def entities(self, plural: str) -> list[Json]:
        return [each for each in self._entities.values() if each["kind"] == _KINDS[plural]]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if not isinstance(request.stream, httpx.ByteStream):
            request.read()  # a file, on its way
        if self.trouble:
            return self.trouble.popleft()(lambda: self._answer(request))
        return self._answer(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v0")
        if path.startswith("/objects/"):
            return self._object(request, path.removeprefix("/objects/"))
        session = re.search("/infer/", path) is not None
        if request.headers["authorization"] != f"Bearer {self.session_token if session else TOKEN}":
            return _refusal(401, "Unauthenticated", "the token is no good")
        for method, pattern, name in _ROUTES:
            found = re.fullmatch(pattern, path)
            if found and request.method == method and found[1] in _KINDS:
                return self._routed(name, request, found.groups())
        return _refusal(404, "NotFound", f"there is no route {request.method} {path}")

    def _routed(self, name: str, request: httpx.Request, values: tuple[str, ...]) -> httpx.Response:
        if len(values) > 1 and values[1] not in self._entities:
            return _refusal(404, "NotFound", f"id: there is no {_KINDS[values[0]]} {values[1]}")
        answer: httpx.Response = getattr(self, name)(request, *values)
        return answer

    # ---- entities

    def _create(self, request: httpx.Request, plural: str) -> httpx.Response:
        asked, id = json.loads(request.content), uuid.uuid4().hex
        id = self._keys.setdefault(request.headers["idempotency-key"], id)
        if id not in self._entities:
            waits = plural in {"datasets", "modules", "models"}
            self._entities[id] = {
                **asked,
                "id": id,
                "kind": _KINDS[plural],
                "status": "WaitingForUpload" if waits else "Created",
                "creationTime": f"{BEGINNING + timedelta(seconds=len(self._entities)):%Y-%m-%dT%H:%M:%SZ}",
            }
        made = self._entities[id]
        session = {"inferencesession": made, "token": self.session_token}
        return httpx.Response(200, json=session if plural == "inferencesessions" else made)

    def _get(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        return httpx.Response(200, json=self._entities[id])

    def _query(self, request: httpx.Request, plural: str) -> httpx.Response:
        """In order of a field, and of ids where it is the same; what has it not comes last in either order."""
        params = request.url.params
        order, down = params.get("orderBy", "creationTime"), params.get("order") == "descending"
        wanted = {name: params[name] for name in ("name", "status", "account") if name in params}
        found = [each for each in self.entities(plural) if wanted.items() <= each.items()]
        having = sorted((each[order], each["id"]) for each in found if order in each)
        lacking = sorted((None, each["id"]) for each in found if order not in each)
        keys = [*having[::-1], *lacking[::-1]] if down else [*having, *lacking]
        if "after" in params:
            value, id = json.loads(params["after"])
            keys = [each for each in keys if _follows(each, (value, id), down)]
        size = min(int(params.get("limit", self.page)), self.page)
        page = [self._entities[id] for _, id in keys[:size]]
        return httpx.Response(200, json=page, headers={MORE: "true"} if len(keys) > size else {})

    def _end(self, request: httpx.Request, plural: str, id: str, how: str) -> httpx.Response:
        self._entities[id]["status"] = "Deleted" if how == "delete" else "Terminated"
        return httpx.Response(200, json={"status": self._entities[id]["status"]})

    def _label(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        labels = _patched(self._entities[id].get("labels", {}), json.loads(request.content)["labels"])
        self._entities[id]["labels"] = labels
        return httpx.Response(200, json={"labels": labels})

    def _document(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        patch = json.loads(request.content)["documentation"]
        about = self._entities[id].setdefault("metadata", {})
        about["documentation"] = _patched(about.get("documentation", {}), patch)
        return self._documentation(request, plural, id)

    def _documentation(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        said = self._entities[id].get("metadata", {}).get("documentation", {})
        return httpx.Response(200, json={**said, "schemaVersion": "0.1", "entity": id})

    # ---- files

    def _uplink(self, request: httpx.Request, plural: str, id: str, path: str) -> httpx.Response:
        if self._entities[id]["status"] != "WaitingForUpload":
            return _refusal(409, "Conflict", f"status: {id} takes no more files")
        url = f"{ENDPOINT}/objects/{id}/{path}"
        md5 = next(
            (
                each.get("digest", {}).get("md5")
                for each in _files(self._entities[id])
                if each["path"] == path
            ),
            None,
        )
        headers = {"content-md5": md5} if md5 else {}
        return httpx.Response(200, json={"url": url, "method": "PUT", "headers": headers})

    def _finalize(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        entity = self._entities[id]
        missing = [each["path"] for each in _files(entity) if f"{id}/{each['path']}" not in self.objects]
        if missing:
            return _refusal(422, "Invalid", f"artifacts: {missing[0]} was not uploaded")
        entity["status"] = "Created" if plural == "models" else "Ready"
        return httpx.Response(200, json=None)

    def _downlinks(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        links = []
        for key, content in self.objects.items():
            owner, _, path = key.partition("/")
            if owner == id:
                artifact = {"path": path, "digest": {"md5": md5_of(content)}}
                url = {"url": f"{ENDPOINT}/objects/{key}", "method": "GET", "headers": {}}
                links.append({"artifact": artifact, "signedURL": url})
        return httpx.Response(200, json=links)

    def _evidence(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        files = self._downlinks(request, plural, id).json()
        missing = {"path": "inputs/", "reason": "the token lacks datasets/data"}
        return httpx.Response(200, json={"files": files, "notIncluded": [missing]})

    def _object(self, request: httpx.Request, key: str) -> httpx.Response:
        assert "authorization" not in request.headers, "a signed address needs no token, and must not get one"
        if request.method == "GET":
            found = self.objects.get(key)
            return streamed(found) if found is not None else httpx.Response(404)
        assert "transfer-encoding" not in request.headers
        if request.headers.get("content-md5", md5_of(request.content)) != md5_of(request.content):
            return _refusal(422, "Invalid", "Content-MD5: the body has another")
        self.objects[key] = request.content
        return httpx.Response(200)

    # ---- inference sessions

    def _ready(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        return httpx.Response(200, json={"ready": "ready" in self._entities[id].get("labels", {})})

    def _token(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        return httpx.Response(200, json=self.session_token)

    def _infer(self, request: httpx.Request, plural: str, id: str, endpoint: str) -> httpx.Response:
        return httpx.Response(200, json={"endpoint": endpoint, "asked": json.loads(request.content)})


class _Content(httpx.SyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content


def streamed(content: bytes, length: int | None = None) -> httpx.Response:
    """A file as storage answers it; `length` is what it says of itself."""
    size = len(content) if length is None else length
    return httpx.Response(200, headers={"content-length": str(size)}, stream=_Content(content))


def _refusal(status: int, reason: str, detail: str) -> httpx.Response:
    field = detail.partition(":")[0] if ":" in detail else None
    return httpx.Response(status, json={"detail": detail, "reason": reason, "field": field})


def _follows(key: tuple[Any, str], last: tuple[Any, str], down: bool) -> bool:
    if (key[0] is None) != (last[0] is None):
        return key[0] is None
    one, other = (key[1:], last[1:]) if key[0] is None else (key, last)
    return one < other if down else one > other


def _patched(values: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    return {key: value for key, value in {**values, **patch}.items() if value is not None}


def _files(entity: Json) -> list[Json]:
    if entity["kind"] == "Model":
        return list(entity["artifact"]["volume"]["files"])
    return list(entity["artifacts"])


def md5_of(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
