"""The routes of the registry. They are a table of their own: their protocol is not that of the API's document."""

from collections.abc import Iterator

from starlette.responses import Response

from steelyard.api.http.access import AnyPrincipal, Grant, Public, read_token
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import value_response
from steelyard.api.http.routing import Route
from steelyard.api.registry import blobs, discovery, manifests, uploads
from steelyard.api.registry.errors import TOKENS

_PULL, _PUSH = Grant("artifacts", "data"), Grant("artifacts", "create")
_ONE = "/v2/artifacts/{id}"
NOBODY = "anonymous"
"""Token of a client without credentials. It counts for nothing.

A registry may have content for everybody, so that clients ask for such a token first.
"""


def registry_routes() -> Iterator[Route]:
    """Yield every route of the registry."""
    yield Route("GET", "/v2/", AnyPrincipal(), _ping, "Whether the token counts")
    yield Route("GET", TOKENS, Public(), give_token, "A token for credentials")
    blob, manifest = f"{_ONE}/blobs/{{digest}}", f"{_ONE}/manifests/{{reference}}"
    yield Route("GET", blob, _PULL, blobs.get, "Get a blob")
    yield Route("HEAD", blob, _PULL, blobs.get, "Whether there is a blob")
    yield Route("DELETE", blob, _PUSH, blobs.delete, "Delete a blob")
    yield Route("GET", manifest, _PULL, manifests.get, "Get a manifest")
    yield Route("HEAD", manifest, _PULL, manifests.get, "Whether there is a manifest")
    yield Route("PUT", manifest, _PUSH, manifests.put, "Push a manifest")
    yield Route("DELETE", manifest, _PUSH, manifests.delete, "Delete a manifest or a tag")
    yield Route("GET", f"{_ONE}/tags/list", _PULL, discovery.tags, "List the tags")
    yield Route(
        "GET", f"{_ONE}/referrers/{{digest}}", _PULL, discovery.referrers, "List a manifest's referrers"
    )
    # Clients write the address of new uploads with and without a slash at its end.
    yield Route("POST", f"{_ONE}/blobs/uploads/", _PUSH, uploads.begin, "Begin an upload")
    yield Route("POST", f"{_ONE}/blobs/uploads", _PUSH, uploads.begin, "Begin an upload")
    upload = f"{_ONE}/blobs/uploads/{{upload}}"
    yield Route("GET", upload, _PUSH, uploads.progress, "How far an upload is")
    yield Route("PATCH", upload, _PUSH, uploads.append, "Upload a chunk")
    yield Route("PUT", upload, _PUSH, uploads.finish, "Finish an upload")
    yield Route("DELETE", upload, _PUSH, uploads.cancel, "Give up an upload")


async def _ping(context: RequestContext) -> Response:
    """An empty object: this is a registry, and it knows the caller."""
    response = value_response({})
    response.headers["Docker-Distribution-API-Version"] = "registry/2.0"
    return response


async def give_token(context: RequestContext) -> Response:
    """The password of the request's credentials, which is a bearer token itself.

    Whether it counts says the answer to the request that is sent with it. Clients that get no token here take it for a
    failure that may pass, and try again.
    """
    token = read_token(context.headers.raw) or NOBODY
    response = value_response({"token": token, "access_token": token})
    response.headers["Cache-Control"] = "no-store"
    return response
