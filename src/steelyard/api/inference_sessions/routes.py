"""Routes that only inference sessions have: creation with a token, readiness, requests to replicas."""

from collections.abc import Iterator

from starlette.responses import Response

from steelyard.api.entities.collection import Collection
from steelyard.api.http.access import Grant
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import json_response
from steelyard.api.http.routing import ANY, Route
from steelyard.api.inference_sessions import sessions
from steelyard.schema.answers import InferenceSessionAndToken
from steelyard.schema.requests import InferenceSessionTokenCreateRequest


def session_routes(collection: Collection) -> Iterator[Route]:
    async def create(context: RequestContext) -> Response:
        return json_response(await sessions.with_token(context, await collection.created(context)))

    path, one = "/v0/inferencesessions", "/v0/inferencesessions/{id}"
    can_create, can_get = Grant(collection.resource, "create"), Grant(collection.resource, "get")
    summary = f"Create: {collection.kind}"
    yield Route("POST", path, can_create, create, summary, collection.request, InferenceSessionAndToken)
    for method in ("GET", "POST"):
        request = InferenceSessionTokenCreateRequest if method == "POST" else None
        yield Route(method, f"{one}/ready", can_get, sessions.ready, "Whether it is ready")
        yield Route(
            method, f"{one}/token", can_create, sessions.token, "Another token", request, str,
            errors=(400, 409, 413, 415, 422),
        )  # fmt: skip
    consume = Grant(collection.resource, "consume")
    yield Route("GET", f"{one}/served", consume, sessions.served, "What gives its answers", errors=(409,))
    yield Route(
        "GET", f"{one}/infer/{{endpoint:path}}", consume, sessions.read, "Read from a replica", media=ANY,
        errors=(409, 502),
    )  # fmt: skip
    yield Route(
        "POST", f"{one}/infer/{{endpoint:path}}", consume, sessions.infer,
        "Ask a replica", media=ANY, errors=(501, 502),
    )  # fmt: skip
