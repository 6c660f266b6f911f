"""A fake platform in memory, for tests of programs that use the client; docs/testing.md shows how to use it.

`fake.client()` gives a real client whose requests are answered in the same process. The answers are the API's where a
client can see the difference: keys of repeated requests, pages, uploads, downloads. Nothing is checked or run: a test
sets the state of an entity with `put`.
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
from steelyard_common.types import Json
from steelyard_schema.base import DyffEntity
from steelyard_schema.data_source import UPLOAD, DataSource, list_uploads, upload_note
from steelyard_schema.entities import PLURALS

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
    ("GET", r"/(\w+)/(\w+)/croissant", "_croissant"),
    ("PUT", r"/(\w+)/(\w+)/croissant", "_take_croissant"),
    ("GET", r"/(\w+)/(\w+)/upload/(.+)", "_uplink"),
    ("POST", r"/(\w+)/(\w+)/finalize", "_finalize"),
    ("GET", r"/(\w+)/(\w+)/downlinks", "_downlinks"),
    ("GET", r"/(\w+)/(\w+)/evidence", "_evidence"),
    ("GET", r"/(\w+)/(\w+)/ready", "_ready"),
    ("POST", r"/(\w+)/(\w+)/token", "_token"),
    ("POST", r"/(\w+)/(\w+)/infer/(.+)", "_infer"),
]


def refused(status: int, reason: str = "Unavailable", **headers: str) -> Trouble:
    """Refuse a request with an HTTP status, a reason and headers such as `retry_after="2"`; it has no effect."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = {"detail": f"there is trouble: {reason}", "reason": reason}
    return lambda _: httpx.Response(status, json=content, headers=named)


def unreachable(_: Answer) -> httpx.Response:
    """Refuse the connection of a request; it has no effect."""
    raise httpx.ConnectError("connection refused")


def lost(answer: Answer) -> httpx.Response:
    """Carry out a request, and break the connection before its answer."""
    answer()
    raise httpx.ReadError("connection reset")


@dataclass
class FakePlatform:
    """A platform without accounts and workflows, whose entities and files live in this object."""

    trouble: deque[Trouble] = field(default_factory=deque)
    """Faults for the next requests, one each: `lost`, `unreachable`, `refused(503)`."""
    requests: list[httpx.Request] = field(default_factory=list)
    """All requests that arrived, in order."""
    objects: dict[str, bytes] = field(default_factory=dict)
    """Content of uploaded files by `<entity id>/<path>`."""
    page: int = 10_000
    """Maximum entities of one answer to a query."""
    session_token: str = SESSION_TOKEN
    """Token that inference sessions are given, and that they ask for."""
    _entities: dict[str, Json] = field(default_factory=dict)
    _keys: dict[str, str] = field(default_factory=dict)
    _descriptions: dict[str, Json] = field(default_factory=dict)

    def client(self, retries: Retries = AT_ONCE) -> Client:
        """Return a client of this platform; by default it repeats requests without a pause."""
        http = httpx.Client(transport=httpx.MockTransport(self))
        return Client(ENDPOINT, TOKEN, retries=retries, http=http)

    def async_client(self, retries: Retries = AT_ONCE) -> AsyncClient:
        """Return an asyncio client of this platform; by default it repeats requests without a pause."""
        transport = httpx.MockTransport(self)
        http, files = httpx.AsyncClient(transport=transport), httpx.Client(transport=transport)
        return AsyncClient(ENDPOINT, TOKEN, retries=retries, http=http, files=files)

    def put(self, entity: DyffEntity, **changes: str | None) -> None:
        """Store an entity with some fields changed, as a workflow would: `fake.put(model, status="Ready")`."""
        self._entities[entity.id] = {**entity.dump(), **changes}

    def entities(self, plural: str) -> list[Json]:
        """Return the entities of one kind as JSON, oldest first; `plural` is the kind's route, such as `datasets`."""
        return [entity for entity in self._entities.values() if entity["kind"] == _KINDS[plural]]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if not isinstance(request.stream, httpx.ByteStream):
            request.read()  # an upload is streamed: its content is read here, as a server would
        if self.trouble:
            return self.trouble.popleft()(lambda: self._answer(request))
        return self._answer(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/v0")
        if path.startswith("/objects/"):
            return self._object(request, path.removeprefix("/objects/"))
        token = self.session_token if "/infer/" in path else TOKEN
        if request.headers["authorization"] != f"Bearer {token}":
            return _refusal(401, "Unauthenticated", "the token is not valid")
        for method, pattern, name in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and request.method == method and match[1] in _KINDS:
                return self._dispatch(name, request, match.groups())
        return _refusal(404, "NotFound", f"there is no route {request.method} {path}")

    def _dispatch(self, name: str, request: httpx.Request, values: tuple[str, ...]) -> httpx.Response:
        if len(values) > 1 and values[1] not in self._entities:
            return _refusal(404, "NotFound", f"id: there is no {_KINDS[values[0]]} {values[1]}")
        answer: httpx.Response = getattr(self, name)(request, *values)
        return answer

    # ---- entities

    def _create(self, request: httpx.Request, plural: str) -> httpx.Response:
        content = json.loads(request.content)
        id = self._keys.setdefault(request.headers["idempotency-key"], uuid.uuid4().hex)
        if id not in self._entities:
            uploads = content.get("sourceKind") == UPLOAD
            has_files = uploads or plural in {"datasets", "modules", "models"}
            if uploads:
                digests = {file["path"]: file["digest"].get("md5") for file in content.pop("artifacts")}
                content["annotations"] = [upload_note(digests).dump()]
            self._entities[id] = {
                **content,
                "id": id,
                "kind": _KINDS[plural],
                "status": "WaitingForUpload" if has_files else "Created",
                "creationTime": f"{BEGINNING + timedelta(seconds=len(self._entities)):%Y-%m-%dT%H:%M:%SZ}",
            }
        entity = self._entities[id]
        session = {"inferencesession": entity, "token": self.session_token}
        return httpx.Response(200, json=session if plural == "inferencesessions" else entity)

    def _get(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        return httpx.Response(200, json=self._entities[id])

    def _query(self, request: httpx.Request, plural: str) -> httpx.Response:
        """Answer a page: by the order's field, then by id; entities without the field come last in either order."""
        params = request.url.params
        order, descending = params.get("orderBy", "creationTime"), params.get("order") == "descending"
        filters = {name: params[name] for name in ("name", "status", "account") if name in params}
        entities = [entity for entity in self.entities(plural) if filters.items() <= entity.items()]
        with_value = sorted((entity[order], entity["id"]) for entity in entities if order in entity)
        without = sorted((None, entity["id"]) for entity in entities if order not in entity)
        keys = [*with_value[::-1], *without[::-1]] if descending else [*with_value, *without]
        if "after" in params:
            value, id = json.loads(params["after"])
            keys = [key for key in keys if _follows(key, (value, id), descending)]
        size = min(int(params.get("limit", self.page)), self.page)
        page = [self._entities[id] for _, id in keys[:size]]
        return httpx.Response(200, json=page, headers={MORE: "true"} if len(keys) > size else {})

    def _end(self, request: httpx.Request, plural: str, id: str, how: str) -> httpx.Response:
        self._entities[id]["status"] = "Deleted" if how == "delete" else "Terminated"
        return httpx.Response(200, json={"status": self._entities[id]["status"]})

    def _label(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        labels = _patch(self._entities[id].get("labels", {}), json.loads(request.content)["labels"])
        self._entities[id]["labels"] = labels
        return httpx.Response(200, json={"labels": labels})

    def _document(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        patch = json.loads(request.content)["documentation"]
        metadata = self._entities[id].setdefault("metadata", {})
        metadata["documentation"] = _patch(metadata.get("documentation", {}), patch)
        return self._documentation(request, plural, id)

    def _documentation(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        documentation = self._entities[id].get("metadata", {}).get("documentation", {})
        return httpx.Response(200, json={**documentation, "schemaVersion": "0.1", "entity": id})

    def _croissant(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        return httpx.Response(200, json=self._descriptions.get(id, {}))

    def _take_croissant(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        self._descriptions[id] = json.loads(request.content).get("croissant", {})
        metadata = self._entities[id].setdefault("metadata", {})
        metadata["documentation"] = {"title": self._descriptions[id].get("name", "")}
        return httpx.Response(200, json={"taken": list(self._descriptions[id]), "leftOut": []})

    # ---- files

    def _uplink(self, request: httpx.Request, plural: str, id: str, path: str) -> httpx.Response:
        if self._entities[id]["status"] != "WaitingForUpload":
            return _refusal(409, "Conflict", f"status: {id} takes no more files")
        url = f"{ENDPOINT}/objects/{id}/{path}"
        digests = {file["path"]: file.get("digest", {}).get("md5") for file in _files(self._entities[id])}
        md5 = digests.get(path)
        headers = {"content-md5": md5} if md5 else {}
        return httpx.Response(200, json={"url": url, "method": "PUT", "headers": headers})

    def _finalize(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        entity = self._entities[id]
        missing = [file["path"] for file in _files(entity) if f"{id}/{file['path']}" not in self.objects]
        if missing:
            return _refusal(422, "Invalid", f"artifacts: {missing[0]} was not uploaded")
        entity["status"] = "Created" if plural == "models" else "Ready"
        return httpx.Response(200, json=None)

    def _downlinks(self, request: httpx.Request, plural: str, id: str) -> httpx.Response:
        links = []
        for key, content in self.objects.items():
            owner, _, path = key.partition("/")
            if owner == id:
                artifact = {"path": path, "digest": {"md5": md5_digest(content)}}
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
            content = self.objects.get(key)
            return file_response(content) if content is not None else httpx.Response(404)
        assert "transfer-encoding" not in request.headers
        if request.headers.get("content-md5", md5_digest(request.content)) != md5_digest(request.content):
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


def file_response(content: bytes, length: int | None = None) -> httpx.Response:
    """Return a file as storage answers it; `length` is the Content-Length, which may be wrong."""
    size = len(content) if length is None else length
    return httpx.Response(200, headers={"content-length": str(size)}, stream=_Content(content))


def _refusal(status: int, reason: str, detail: str) -> httpx.Response:
    field = detail.partition(":")[0] if ":" in detail else None
    return httpx.Response(status, json={"detail": detail, "reason": reason, "field": field})


def _follows(key: tuple[Any, str], last: tuple[Any, str], descending: bool) -> bool:
    if (key[0] is None) != (last[0] is None):
        return key[0] is None
    # None cannot be compared: among keys without a value, the ids decide.
    one, other = (key[1:], last[1:]) if key[0] is None else (key, last)
    return one < other if descending else one > other


def _patch(values: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    return {key: value for key, value in {**values, **patch}.items() if value is not None}


def _files(entity: Json) -> list[Json]:
    if entity["kind"] == "Model":
        return list(entity["artifact"]["volume"]["files"])
    if entity["kind"] == "DataSource":
        files = list_uploads(DataSource.parse(entity)).items()
        return [{"path": path, "digest": {"md5": md5}} for path, md5 in files]
    return list(entity["artifacts"])


def md5_digest(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
