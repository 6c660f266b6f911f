"""The request that a handler answers: its caller, path, headers and body, and the parts of the API's process."""

import hashlib
import ipaddress
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import orjson
from pydantic import ValidationError
from starlette.datastructures import URL, Headers, QueryParams
from starlette.requests import HTTPConnection, Request
from starlette.types import Scope
from starlette.websockets import WebSocket

from steelyard.api.commands.acceptance import check_body
from steelyard.api.commands.commands import CommandOrigin
from steelyard.api.http.access import Access, Check
from steelyard.api.http.errors import JSON, BadRequest, Invalid, TooLarge, UnsupportedMediaType, invalid
from steelyard.api.http.reply import Reply
from steelyard.api.platform import Api
from steelyard.api.settings import ApiSettings
from steelyard_schema.base import SchemaModel
from steelyard_schema.entities import AnyEntity

M = TypeVar("M", bound=SchemaModel)
_PEEK = 4
"""Bodies of up to this many times the limit are read, so that the error can name the field that is too large."""
_VERSION = {"schemaVersion"}
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass
class RequestContext:
    """One request to one route: the caller, the connection, and readers of headers and body."""

    api: Api
    check: Check
    """The route's check: who may call it."""
    values: Mapping[str, str]
    """Values of the path's parameters."""
    connection: HTTPConnection
    now: datetime
    access: Access
    reply: Reply
    pending: dict[str, AnyEntity] = field(default_factory=dict)
    """Entities that the request creates, by id: others that it creates may refer to them."""
    tags: dict[str, str] = field(default_factory=dict)
    """References by tag that the request has, `family@tag`, by their fields."""
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
        """Address of this API, for links: the setting `public_url`, or else the request's Host. Raises BadRequest."""
        return own_address(self.connection.scope, self.api.platform.settings)

    async def body(self, model: type[M]) -> M:
        """Return the body as a model. Raises TooLarge, BadRequest, Invalid."""
        try:
            return model.model_validate(await self.json())
        except ValidationError as error:
            raise invalid(error, model) from error

    async def edit(self, model: type[M]) -> M:
        """Return the body of an edit, which must change something. Raises TooLarge, BadRequest, Invalid."""
        request = await self.body(model)
        # An empty edit would be a command that changes nothing, and would be answered as if it had.
        if not request.model_fields_set - _VERSION:
            missing = " or ".join(name for name in model.model_fields if name not in _VERSION)
            raise Invalid(f"{missing}: is missing; without it there is nothing to change", field=missing)
        return request

    async def json(self) -> dict[str, object]:
        """Return the body as an object; an absent body is an empty one. Raises TooLarge, BadRequest, Invalid."""
        media_type = self.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        limit = self.api.platform.settings.entity_bytes
        # Somewhat more than the limit is read, because the error names the largest field; never all of any size.
        data = self._body = b"".join([piece async for piece in self.stream(_PEEK * limit)])
        if data and media_type != JSON:
            raise UnsupportedMediaType(f"Content-Type: {media_type!r} should be {JSON}", field="Content-Type")
        try:
            content = orjson.loads(data or b"{}")
        except orjson.JSONDecodeError as error:
            raise BadRequest(f"body: is not JSON: {error}", field="body") from error
        if not isinstance(content, dict):
            raise BadRequest("body: should be a JSON object", field="body")
        check_body(content, len(data), limit)
        return content

    def command_origin(self) -> CommandOrigin:
        """Return the origin of this request's commands. Call it after `json`: it has the body's digest.

        Raises BadRequest for a malformed Idempotency-Key or If-Match.
        """
        key = self.headers.get("idempotency-key")
        if key is not None and not _PRINTABLE.fullmatch(key):
            raise BadRequest(
                "Idempotency-Key: should be 1 to 255 printable characters", field="Idempotency-Key"
            )
        match = self.headers.get("if-match")
        # A condition that cannot be checked is refused: ignored, it would let the edit overwrite a newer revision.
        if match is not None and not _PRINTABLE.fullmatch(match.strip('"')):
            raise BadRequest(f"If-Match: {match!r} should be one revision or *", field="If-Match")
        path = self.request.scope["path"]
        names = {"request": "x-request-id", "if-match": "if-match"}
        headers = {name: self.headers.get(header, "").strip('"') for name, header in names.items()}
        headers["traceparent"] = self.request.scope.get("traceparent") or ""
        return CommandOrigin(
            actor=self.access.actor,
            token=self.access.token,
            headers={name: value for name, value in headers.items() if _PRINTABLE.fullmatch(value)},
            idempotency_key=key,
            # Of the bytes as they came: two requests are equal only if every byte is, which a client that repeats one
            # keeps.
            digest=hashlib.sha256(f"{self.request.method} {path}\n".encode() + self._body).hexdigest(),
        )

    async def stream(self, limit: int) -> AsyncIterator[bytes]:
        """Yield the body in pieces. Raises TooLarge for more than `limit` bytes."""
        size = 0
        # Refused before it is read: a client that announces too much need not send it.
        if int(self.headers.get("content-length", "0") or 0) > limit:
            raise TooLarge(f"body: has more than {limit} bytes", field="body")
        async for piece in self.request.stream():
            size += len(piece)
            if size > limit:
                raise TooLarge(f"body: has more than {limit} bytes", field="body")
            yield piece


def own_address(scope: Scope, settings: ApiSettings) -> str:
    """Return the address of the API that a request has reached: `public_url`, or else its Host. Raises BadRequest."""
    if settings.public_url:
        return settings.public_url.rstrip("/")
    url, server = URL(scope=scope), (scope.get("server") or ("",))[0]
    try:
        host, port = url.hostname or "", url.port
    except ValueError:
        host, port = "", None
    # A client, or a proxy before it, may write any Host. Signed URLs must not lead elsewhere: without the setting,
    # a Host counts only if it names this machine or the address of the connection, or is a name of the settings.
    known = {server, *(name.lower() for name in settings.hosts)}
    if not host or not (host.lower() in known or _is_loopback(host)):
        header = Headers(scope=scope).get("host", "")
        raise BadRequest(
            f"Host: {header!r} is not one of this API's addresses that it knows; if clients reach it by another "
            "name, set api.public_url or api.hosts",
            field="Host",
        )
    # An IPv6 address stands in brackets in a URL.
    name = f"[{host}]" if ":" in host else host
    return f"{url.scheme}://{name}{f':{port}' if port else ''}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
