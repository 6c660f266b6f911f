"""Handlers of inference sessions: their tokens, whether they are ready, and requests to their replicas."""

from datetime import datetime, timedelta
from functools import lru_cache

import orjson
from starlette.responses import Response

from steelyard.accounts.database import TooManyKeys
from steelyard.api.datasets.delivery import read_content
from steelyard.api.entities.loading import load, load_json, parse
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import JSON, Conflict, Invalid, UnsupportedMediaType
from steelyard.api.http.responses import value_response
from steelyard.api.inference_sessions.creation import check_future
from steelyard.api.inference_sessions.replicas import Inference
from steelyard.runners.record import service_record, version_in
from steelyard.runners.table import kind_of_runner
from steelyard.runners.weights import CONFIG_BYTES, precision_in
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import ObjectMissing
from steelyard_schema.account import AccessGrant
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.names import MANIFEST, place
from steelyard_schema.requests import InferenceSessionTokenCreateRequest
from steelyard_schema.status import TERMINAL


async def with_token(context: RequestContext, json: bytes) -> bytes:
    """Return the answer to a create request: the session, and a token that counts for it alone."""
    session = InferenceSession.model_validate_json(json)
    token = await _mint(context, session, session.expires)
    return b'{"inferencesession":%s,"token":"%s"}' % (json, token.encode())


async def token(context: RequestContext) -> Response:
    """Another token, as a bare JSON string."""
    request = await context.body(InferenceSessionTokenCreateRequest)
    session = await _running(context)
    if request.expires is not None:
        check_future(request.expires, context.now)
        if session.expires is not None and request.expires > session.expires:
            raise Invalid(
                f"expires: should not be after the session's end, {session.expires.isoformat()}",
                field="expires",
            )
    return value_response(await _mint(context, session, request.expires or session.expires))


async def ready(context: RequestContext) -> Response:
    """`{"ready": true}` once a replica answers; before, the status and why no replica answers yet, or ever will."""
    session = await load(context)
    assert isinstance(session, InferenceSession)
    is_ready = session.status == "Admitted" and bool(await context.api.replicas.addresses(session))
    content: dict[str, object] = {"ready": is_ready, "status": session.status}
    if not is_ready:
        why = {"reason": session.reason, "message": session.message}
        content |= {name: text for name, text in why.items() if text}
    return value_response(content)


async def read(context: RequestContext) -> Response:
    """The answer of one replica to a GET, such as its list of models."""
    session = await _running(context)
    inference = Inference(
        endpoint=context.values["endpoint"],
        query=context.request.scope["query_string"].decode("latin-1"),
        headers=context.headers,
        body=b"",
        silence_seconds=context.api.platform.settings.inference_seconds,
        method="GET",
    )
    return await context.api.replicas.forward(session, inference)


async def serve_files(context: RequestContext) -> Response:
    """Answer with the files of the session's volumes and their digests, and with the record of its server."""
    session = await _running(context)
    service = session.inferenceService.dump()
    volumes, weights = [], ""
    for mount in (service.get("runner") or {}).get("volumeMounts") or ():
        if mount["kind"] == "Data":
            source = mount["data"]["source"]
            folder = place(source["kind"], source["id"])
            volumes.append({"name": mount["name"], "source": source, **await _content(context, folder)})
            weights = weights or await _precision(context, folder)
    kind = kind_of_runner(service["runner"]) if service.get("runner") else None
    version = ""
    if kind is not None and kind.version_path:
        version = version_in(await context.api.replicas.get_json(session, kind.version_path))
    record = service_record(service, version=version, weights=weights)
    return value_response({"volumes": volumes, "servers": [record.json()] if record else []})


async def _content(context: RequestContext, folder: str) -> Json:
    """Return the files of a volume as its manifest lists them; nothing where there is no manifest."""
    try:
        manifest = orjson.loads(await context.api.platform.store.get(f"{folder}/{MANIFEST}"))
    except ObjectMissing:
        return {}
    fields = ("path", "size", "sha256")
    return {"files": [{name: file[name] for name in fields} for file in manifest["files"]]}


async def _precision(context: RequestContext, folder: str) -> str:
    store, key = context.api.platform.store, f"{folder}/config.json"
    try:
        small = (await store.head(key)).size <= CONFIG_BYTES
        return precision_in(await read_content(store, key)) if small else ""
    except ObjectMissing:
        return ""


async def infer(context: RequestContext) -> Response:
    """The answer of one replica to the request, both forwarded unchanged."""
    session = await _running(context)
    media_type = context.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type != JSON:
        raise UnsupportedMediaType(f"Content-Type: {media_type!r} should be {JSON}", field="Content-Type")
    settings = context.api.platform.settings
    inference = Inference(
        endpoint=context.values["endpoint"],
        query=context.request.scope["query_string"].decode("latin-1"),
        headers=context.headers,
        body=b"".join([piece async for piece in context.stream(settings.inference_bytes)]),
        silence_seconds=settings.inference_seconds,
    )
    return await context.api.replicas.forward(session, inference)


async def _running(context: RequestContext) -> InferenceSession:
    """Return the session. Raises Conflict for one that has ended."""
    session = _parse(await load_json(context))
    if session.status in TERMINAL or (session.expires and session.expires <= context.now):
        status = session.status if session.status in TERMINAL else "expired"
        raise Conflict(f"status: InferenceSession {session.id} has ended: it is {status}")
    return session


@lru_cache(maxsize=256)
def _parse(json: bytes) -> InferenceSession:
    """Return a session that callers must not change: thousands of requests need the same one, and each parse takes as
    long as the rest of the request's way through this process.
    """
    session = parse("InferenceSession", json)
    assert isinstance(session, InferenceSession)
    return session


async def _mint(context: RequestContext, session: InferenceSession, expires: datetime | None) -> str:
    grant = AccessGrant(resources=["inferencesessions"], functions=["consume"], entities=[session.id])
    until = expires or context.now + timedelta(seconds=context.api.platform.settings.session_seconds)
    most = context.api.platform.settings.session_tokens
    try:
        return await context.api.tokens.mint(
            None, f"inferencesessions/{session.id}", [grant], until, context.now, most=most
        )
    except TooManyKeys as error:
        raise Conflict(str(error)) from error
