"""Handlers of inference sessions: their tokens, whether they are ready, and requests to their replicas."""

from datetime import datetime, timedelta

from starlette.responses import Response

from steelyard.api.entities.loading import load
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import JSON, Conflict, Invalid, NotImplementedYet
from steelyard.api.http.responses import value_response
from steelyard.api.inference_sessions.creation import check_future
from steelyard.api.inference_sessions.replicas import Inference
from steelyard.schema.account import AccessGrant
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.requests import InferenceSessionTokenCreateRequest
from steelyard.schema.status import TERMINAL


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


async def infer(context: RequestContext) -> Response:
    """The answer of one replica to the request, both forwarded unchanged."""
    session = await _running(context)
    media_type = context.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type != JSON:
        raise NotImplementedYet(f"Content-Type: {media_type!r} is not forwarded; {JSON} is")
    settings = context.api.platform.settings
    inference = Inference(
        endpoint=context.values["endpoint"],
        query=context.request.url.query,
        headers=context.headers,
        body=b"".join([piece async for piece in context.stream(settings.inference_bytes)]),
        silence_seconds=settings.inference_seconds,
    )
    return await context.api.replicas.forward(session, inference)


async def _running(context: RequestContext) -> InferenceSession:
    """Return the session. Raises Conflict for one that has ended."""
    session = await load(context)
    assert isinstance(session, InferenceSession)
    if session.status in TERMINAL or (session.expires and session.expires <= context.now):
        status = session.status if session.status in TERMINAL else "expired"
        raise Conflict(f"status: InferenceSession {session.id} has ended: it is {status}")
    return session


async def _mint(context: RequestContext, session: InferenceSession, expires: datetime | None) -> str:
    grant = AccessGrant(resources=["inferencesessions"], functions=["consume"], entities=[session.id])
    until = expires or context.now + timedelta(seconds=context.api.platform.settings.session_seconds)
    return await context.api.tokens.mint(None, f"inferencesessions/{session.id}", [grant], until, context.now)
