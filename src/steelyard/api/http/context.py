"""One request on its way through a handler: who asks, what for, with which body, and what the process has to offer."""

import hashlib
import ipaddress
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import orjson
from pydantic import ValidationError
from starlette.datastructures import URL, Headers, QueryParams
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from steelyard.api.commands.acceptance import check_body
from steelyard.api.commands.commands import Asker
from steelyard.api.http.access import Access
from steelyard.api.http.errors import JSON, BadRequest, Invalid, TooLarge, UnsupportedMediaType, invalid
from steelyard.api.http.reply import Reply
from steelyard.api.http.routing import Route
from steelyard.schema.base import SchemaModel

if TYPE_CHECKING:
    from steelyard.api.platform import Api

M = TypeVar("M", bound=SchemaModel)
_PEEK = 4
"""A body of up to so many times its limit is read, so as to name the field that is too large."""
_VERSION = {"schemaVersion"}
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass
class Call:
    """`access` is what the caller may do; it is absent where the route asks for no grant."""

    api: "Api"
    route: Route
    values: Mapping[str, str]
    connection: HTTPConnection
    now: datetime
    access: Access
    reply: Reply
    _body: bytes = b""

    @property
    def id(self) -> str:
        return self.values["id"]

    @property
    def request(self) -> Request:
        assert isinstance(self.connection, Request)
        return self.connection

    @property
    def socket(self) -> WebSocket:
        assert isinstance(self.connection, WebSocket)
        return self.connection

    @property
    def headers(self) -> Headers:
        return self.connection.headers

    @property
    def query(self) -> QueryParams:
        return self.connection.query_params

    @property
    def base_url(self) -> str:
        """Address of this API, for links: the setting, else the one at which the request came in. Raises BadRequest.

        A Host is whatever the client writes, or somebody before it: without the setting it is believed only where it
        names this machine, or the address of the connection.
        """
        if public := self.api.platform.settings.public_url:
            return public.rstrip("/")
        scope = self.connection.scope
        url, server = URL(scope=scope), (scope.get("server") or ("",))[0]
        try:
            host, port = url.hostname or "", url.port
        except ValueError:
            host, port = "", None
        if not host or not (host == server or _is_loopback(host)):
            said = self.headers.get("host", "")
            raise BadRequest(
                f"Host: {said!r} is none of this API's addresses that it knows of; where clients reach it by another "
                "name, its setting api.public_url has to say so",
                field="Host",
            )
        name = f"[{host}]" if ":" in host else host
        return f"{url.scheme}://{name}{f':{port}' if port else ''}"

    async def body(self, model: type[M]) -> M:
        """Raises TooLarge, BadRequest, Invalid."""
        try:
            return model.model_validate(await self.json())
        except ValidationError as error:
            raise invalid(error) from error

    async def edit(self, model: type[M]) -> M:
        """The body of an edit, which has to name what it changes. Raises TooLarge, BadRequest, Invalid."""
        request = await self.body(model)
        if not request.model_fields_set - _VERSION:
            missing = " or ".join(model.model_fields.keys() - _VERSION)
            raise Invalid(f"{missing}: is missing; without it there is nothing to change", field=missing)
        return request

    async def json(self) -> dict[str, object]:
        """The body as an object; an absent one is empty. Raises TooLarge, BadRequest, Invalid."""
        kind = self.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        data = self._body = await self._read(self.api.platform.settings.entity_bytes)
        if data and kind != JSON:
            raise UnsupportedMediaType(f"Content-Type: {kind!r} should be {JSON}", field="Content-Type")
        try:
            content = orjson.loads(data or b"{}")
        except orjson.JSONDecodeError as error:
            raise BadRequest(f"body: is not JSON: {error}", field="body") from error
        if not isinstance(content, dict):
            raise BadRequest("body: should be a JSON object", field="body")
        check_body(content, len(data), self.api.platform.settings.entity_bytes)
        return content

    def asker(self) -> Asker:
        """On whose behalf commands go out. After `json`: its digest is the body's. Raises BadRequest."""
        key = self.headers.get("idempotency-key")
        if key is not None and not _PRINTABLE.fullmatch(key):
            raise BadRequest(
                "Idempotency-Key: should be 1 to 255 printable characters", field="Idempotency-Key"
            )
        match = self.headers.get("if-match")
        # What is not kept to must not be left out: the edit would have no condition.
        if match is not None and not _PRINTABLE.fullmatch(match.strip('"')):
            raise BadRequest(f"If-Match: {match!r} should be one revision or *", field="If-Match")
        path = self.request.scope["path"]
        names = {"request": "x-request-id", "traceparent": "traceparent", "if-match": "if-match"}
        found = {name: self.headers.get(header, "").strip('"') for name, header in names.items()}
        return Asker(
            actor=self.access.actor,
            token=self.access.token,
            headers={name: value for name, value in found.items() if _PRINTABLE.fullmatch(value)},
            idempotency_key=key,
            digest=hashlib.sha256(f"{self.request.method} {path}\n".encode() + self._body).hexdigest(),
        )

    async def stream(self, limit: int) -> AsyncIterator[bytes]:
        """The body in pieces. Raises TooLarge."""
        size = 0
        if int(self.headers.get("content-length", "0") or 0) > limit:
            raise TooLarge(f"body: has more than {limit} bytes", field="body")
        async for piece in self.request.stream():
            size += len(piece)
            if size > limit:
                raise TooLarge(f"body: has more than {limit} bytes", field="body")
            yield piece

    async def _read(self, limit: int) -> bytes:
        return b"".join([piece async for piece in self.stream(_PEEK * limit)])


def json_response(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type=JSON)


def answer(model: SchemaModel) -> Response:
    """A model as it is published: by its JSON names, without what is absent."""
    return json_response(model.dump_json().encode())


def json_of(value: object) -> Response:
    """Plain values, among them a bare string or null."""
    return json_response(orjson.dumps(value))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
