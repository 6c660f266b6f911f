"""Routes for anybody: health, metrics, and the pages about this API."""

import asyncio
import html
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

from starlette.responses import HTMLResponse, Response

from steelyard.api.http.access import Public, authenticate
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Unavailable
from steelyard.api.http.openapi import check_text, document, first_paragraph
from steelyard.api.http.responses import json_response, value_response
from steelyard.api.http.routing import Route
from steelyard_common import __version__
from steelyard_common.figures import CONTENT_TYPE
from steelyard_common.serving.figures_access import may_read

HTML = "text/html"


async def health(context: RequestContext) -> Response:
    """200 while requests are accepted, else 503."""
    if not context.api.healthy:
        raise Unavailable("the API's own tasks do not run")
    return value_response({"status": "ok"})


async def readyz(context: RequestContext) -> Response:
    """200 while new requests should come here, else 503: a load balancer and a Service ask."""
    if context.api.draining:
        raise Unavailable("this API server was asked to end; send the request to another one")
    return await health(context)


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
    document_once, page_once = cache(partial(_document, table)), cache(lambda: documentation_page(table()))

    # Both take some tenths of a second when they are made: on a thread, other requests go on.
    async def openapi(context: RequestContext) -> Response:
        return json_response(await asyncio.to_thread(document_once, context.api.platform.settings.public_url))

    async def docs(context: RequestContext) -> Response:
        return HTMLResponse(await asyncio.to_thread(page_once))

    for path in ("/", "/docs"):
        yield Route("GET", path, Public(), home, "This platform", media=HTML)
    yield Route("GET", "/health", Public(), health, "Whether the API answers", errors=(503,))
    words = "Whether new requests should come to this server"
    yield Route("GET", "/readyz", Public(), readyz, words, errors=(503,))
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


def documentation_page(routes: Iterable[Route]) -> str:
    """Return the route table as a page of HTML for people, which loads nothing from anywhere."""
    rows = "".join(_row(route) for route in routes if route.method != "WEBSOCKET")
    return _PAGE.format(version=html.escape(__version__), rows=rows)


def _row(route: Route) -> str:
    description = html.escape(first_paragraph(route))
    parameters = ", ".join(parameter.name for parameter in route.parameters)
    cells = (
        f"<code>{route.method}</code>",
        f"<code>{html.escape(route.path)}</code>",
        html.escape(route.summary) + (f"<br><small>{description}</small>" if description else ""),
        f"<code>{html.escape(_type_name(route.request))}</code>"
        if route.request
        else html.escape(parameters),
        f"<code>{html.escape(_type_name(route.answer))}</code>" if route.answer else "",
        html.escape(check_text(route)),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def _type_name(kind: Any) -> str:
    """Return `Model`, or `list of Model`."""
    items = getattr(kind, "__args__", None)
    return f"list of {items[0].__name__}" if items else str(kind.__name__)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Steelyard API {version}</title>
<meta name="viewport" content="width=device-width">
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ border-bottom: 1px solid #ccc6; padding: .4rem .6rem; text-align: left; vertical-align: top; }}
small {{ color: #777; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #16181c; color: #e4e4e4; }} }}
</style></head><body>
<h1>Steelyard API {version}</h1>
<p>Bodies are JSON. Send a token as <code>Authorization: Bearer …</code>. An error's body is
<code>{{"detail", "reason", "field"}}</code>. The same as a document:
<a href="openapi.json">openapi.json</a>.</p>
<table><thead>
<tr><th>Method</th><th>Path</th><th>Purpose</th><th>Request</th><th>Answer</th><th>Who may call it</th></tr>
</thead><tbody>
{rows}</tbody></table></body></html>
"""
