"""Bearer tokens for clients of registries that ask for one before they send a request again."""

from starlette.responses import Response

from steelyard.api.http.access import token_of
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import value_response

NOBODY = "anonymous"
"""Token of a client without credentials. It counts for nothing.

A registry may have content for everybody, so that clients ask for such a token first.
"""


async def give_token(context: RequestContext) -> Response:
    """The password of the request's credentials, which is a bearer token itself.

    Whether it counts says the answer to the request that is sent with it. Clients that get no token here take it for a
    failure that may pass, and try again.
    """
    token = token_of(context.headers.raw) or NOBODY
    response = value_response({"token": token, "access_token": token})
    response.headers["Cache-Control"] = "no-store"
    return response
