"""Routes that only inference sessions have: tokens, readiness, requests to replicas."""

from collections.abc import Iterator

from steelyard.api.entities.collection import Collection
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import ANY, Route
from steelyard.api.inference_sessions import sessions
from steelyard_schema.requests import InferenceSessionTokenCreateRequest


def session_routes(collection: Collection) -> Iterator[Route]:
    one = "/v0/inferencesessions/{id}"
    can_create, can_ask = (
        Grant(collection.resource, "create"),
        Grant(collection.resource, "get", alternative="consume"),
    )
    for method in ("GET", "POST"):
        request = InferenceSessionTokenCreateRequest if method == "POST" else None
        yield Route(method, f"{one}/ready", can_ask, sessions.ready, "Whether it is ready")
        yield Route(
            method, f"{one}/token", can_create, sessions.token, "Another token", request, str,
            errors=(400, 409, 413, 415, 422),
        )  # fmt: skip
    consume = Grant(collection.resource, "consume")
    yield Route(
        "GET", f"{one}/served", consume, sessions.serve_files, "What gives its answers", errors=(409,)
    )
    yield Route(
        "GET", f"{one}/infer/{{endpoint:path}}", consume, sessions.read, "Read from a replica", media=ANY,
        forwarded=True, errors=(409, 502),
    )  # fmt: skip
    yield Route(
        "POST", f"{one}/infer/{{endpoint:path}}", consume, sessions.infer,
        "Ask a replica", media=ANY, forwarded=True, errors=(502,),
    )  # fmt: skip
