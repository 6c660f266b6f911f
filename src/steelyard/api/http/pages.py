"""Routes for anybody: health, metrics, and the pages about this API."""

import asyncio
import html
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial

from starlette.responses import HTMLResponse, Response

from steelyard import __version__
from steelyard.api.http.access import Public, authenticate
from steelyard.api.http.context import RequestContext
from steelyard.api.http.documentation import page
from steelyard.api.http.errors import Unavailable
from steelyard.api.http.openapi import document
from steelyard.api.http.responses import json_response, value_response
from steelyard.api.http.routing import Route
from steelyard.figures import CONTENT_TYPE
from steelyard.serving.figures_access import may_read

HTML = "text/html"


async def health(context: RequestContext) -> Response:
    """200 while requests are accepted, else 503."""
    if not context.api.healthy:
        raise Unavailable("the API's own tasks do not run")
    return value_response({"status": "ok"})


async def metrics(context: RequestContext) -> Response:
    """Figures, for programs of this machine, the token of figures, and every token of an account."""
    client = context.connection.client
    if not may_read(client.host if client else None, context.headers):
        await authenticate(context.api.tokens, context.connection.scope["headers"], context.now)
    return Response(await context.api.metrics.figures.text(), media_type=CONTENT_TYPE)


async def home(context: RequestContext) -> Response:
    """A page that names this platform, and links to the others."""
    return HTMLResponse(_HOME.format(version=html.escape(__version__)))


def page_routes(table: Callable[[], Iterable[Route]]) -> Iterator[Route]:
    """Yield the routes of this module; `table` returns the routes of the whole API, these included."""
    document_once, page_once = cache(partial(_document, table)), cache(lambda: page(table()))

    # Both take some tenths of a second when they are made: on a thread, other requests go on.
    async def openapi(context: RequestContext) -> Response:
        return json_response(await asyncio.to_thread(document_once, context.api.platform.settings.public_url))

    async def docs(context: RequestContext) -> Response:
        return HTMLResponse(await asyncio.to_thread(page_once))

    for path in ("/", "/docs"):
        yield Route("GET", path, Public(), home, "This platform", media=HTML)
    yield Route("GET", "/health", Public(), health, "Whether the API answers", errors=(503,))
    yield Route(
        "GET", "/metrics", Public(), metrics, "Figures for Prometheus", media="text/plain", errors=(401,)
    )
    yield Route("GET", "/v0/docs", Public(), docs, "This API, to be read", media=HTML)
    yield Route("GET", "/v0/openapi.json", Public(), openapi, "This API as an OpenAPI document")


def _document(table: Callable[[], Iterable[Route]], public_url: str) -> bytes:
    return document(table(), public_url.rstrip("/") or "/")


_HOME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Steelyard {version}</title>
<meta name="viewport" content="width=device-width">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 4rem auto; max-width: 42rem; padding: 0 1rem; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #16181c; color: #e4e4e4; }} a {{ color: #8ab4f8; }} }}
</style></head><body>
<h1>Steelyard {version}</h1>
<p>This is the API of a Steelyard platform, with which a team trains, serves, evaluates and audits AI systems. It is for
programs: give clients this address with <code>/v0</code> behind it, and a token.</p>
<ul>
<li><a href="v0/docs">Every route</a>, and who may call it</li>
<li><a href="v0/openapi.json">The same as an OpenAPI document</a></li>
<li><a href="health">Whether it is well</a>, and <a href="metrics">figures for Prometheus</a></li>
</ul>
<p>On this machine, <code>steelyard status</code> says what runs, <code>steelyard get evaluations</code> what there is,
and <code>steelyard --help</code> the rest.</p>
</body></html>
"""
