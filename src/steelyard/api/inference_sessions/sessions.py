"""Inference sessions: their tokens, whether they are ready, and the way to their replicas."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from starlette.responses import Response

from steelyard.api.entities.creation import Base, check_replicas
from steelyard.api.entities.loading import load
from steelyard.api.entities.references import foreign_service, resolve
from steelyard.api.http.context import Call, json_of
from steelyard.api.http.errors import Conflict, Invalid
from steelyard.schema.account import AccessGrant
from steelyard.schema.entities import AnyEntity
from steelyard.schema.inference_service import InferenceService
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.requests import InferenceSessionCreateRequest, InferenceSessionTokenCreateRequest
from steelyard.schema.status import TERMINAL


async def inference_session(
    call: Call, request: InferenceSessionCreateRequest, base: Base
) -> Sequence[AnyEntity]:
    check_replicas(call, request.replicas, "replicas")
    expires = request.expires or call.now + timedelta(seconds=call.api.platform.settings.session_seconds)
    _check_future(expires, call.now)
    service = await resolve(call, InferenceService, request.inferenceService, "inferenceService")
    content = {**request.dump(), "expires": expires, "inferenceService": foreign_service(service).dump()}
    return [base.entity(InferenceSession, content)]


async def with_token(call: Call, json: bytes) -> bytes:
    """What a create answers: the session, and a token that is good for it alone."""
    session = InferenceSession.model_validate_json(json)
    token = await _mint(call, session, session.expires)
    return b'{"inferencesession":%s,"token":"%s"}' % (json, token.encode())


async def token(call: Call) -> Response:
    """Another token, as a bare JSON string."""
    request = await call.body(InferenceSessionTokenCreateRequest)
    session = await _session(call)
    ends = session.expires
    if request.expires is not None:
        _check_future(request.expires, call.now)
        if ends is not None and request.expires > ends:
            raise Invalid(
                f"expires: should not be after the session's end, {ends.isoformat()}", field="expires"
            )
    return json_of(await _mint(call, session, request.expires or ends))


async def ready(call: Call) -> Response:
    """`{"ready": true}` once a replica answers; else why it does not yet, or never will."""
    session = await _session(call, ended=True)
    now = session.status == "Admitted" and bool(await call.api.replicas.addresses(session))
    content: dict[str, object] = {"ready": now, "status": session.status}
    why = {"reason": session.reason, "message": session.message}
    return json_of(content | {name: text for name, text in why.items() if text and not now})


async def infer(call: Call) -> Response:
    """One request to one replica, forwarded as it is; its answer, as it comes."""
    session = await _session(call)
    return await call.api.replicas.forward(call, session, call.values["endpoint"])


async def _session(call: Call, *, ended: bool = False) -> InferenceSession:
    session = await load(call)
    assert isinstance(session, InferenceSession)
    if not ended and (session.status in TERMINAL or (session.expires and session.expires <= call.now)):
        status = session.status if session.status in TERMINAL else "expired"
        raise Conflict(f"status: InferenceSession {session.id} has ended: it is {status}")
    return session


async def _mint(call: Call, session: InferenceSession, expires: datetime | None) -> str:
    grant = AccessGrant(resources=["inferencesessions"], functions=["consume"], entities=[session.id])
    until = expires or call.now + timedelta(seconds=call.api.platform.settings.session_seconds)
    return await call.api.tokens.mint(None, f"inferencesessions/{session.id}", [grant], until, call.now)


def _check_future(expires: datetime, now: datetime) -> None:
    if expires <= now:
        raise Invalid(f"expires: {expires.isoformat()} is past", field="expires")
