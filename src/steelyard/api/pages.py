"""What anybody may read: health, figures, and what this API is."""

import asyncio

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import HTMLResponse, Response

from steelyard.api.call import Call, json_of, json_response
from steelyard.api.errors import Unavailable


async def health(call: Call) -> Response:
    """200 while requests can be accepted."""
    if not call.api.healthy:
        raise Unavailable("the API's own tasks do not run")
    return json_of({"status": "ok"})


async def metrics(call: Call) -> Response:
    return Response(generate_latest(call.api.metrics.registry), media_type=CONTENT_TYPE_LATEST)


async def openapi(call: Call) -> Response:
    from steelyard.api.openapi import document

    return json_response(await asyncio.to_thread(document))


async def docs(call: Call) -> Response:
    from steelyard.api.openapi import page

    return HTMLResponse(await asyncio.to_thread(page))
