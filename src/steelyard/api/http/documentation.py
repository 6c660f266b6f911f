"""The route table as a page for people: one file that loads nothing from anywhere."""

import html
from collections.abc import Iterable
from typing import Any

from steelyard import __version__
from steelyard.api.http.openapi import check_text, described
from steelyard.api.http.routing import Route


def page(routes: Iterable[Route]) -> str:
    """Return the page as HTML."""
    rows = "".join(_row(route) for route in routes if route.method != "WEBSOCKET")
    return _PAGE.format(version=html.escape(__version__), rows=rows)


def _row(route: Route) -> str:
    description = html.escape(described(route))
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
