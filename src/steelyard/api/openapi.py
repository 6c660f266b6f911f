"""What this API is, as an OpenAPI document and as a page to be read, both made from the route table.

FastAPI writes the document when it is first asked for; requests are not dispatched by it, because its machinery costs
more for each request than everything else that a `get` needs. The page is one file that loads nothing.
"""

import html
import inspect
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any

import orjson
from fastapi import Body, FastAPI, Query
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse, Response

from steelyard import __version__
from steelyard.api.errors import JSON
from steelyard.api.routing import Administrator, Grant, Public, Route, Signed
from steelyard.api.table import routes

_ERRORS: dict[int, str] = {
    400: "The request as such is not readable; `field` names what of it.",
    401: "The token is missing, or counts no more.",
    403: "The token's grants, or the signature of the URL, do not reach so far.",
    404: "There is no such thing, as far as the token may see.",
    409: "The entity's state does not allow it.",
    413: "The request is too large.",
    415: "The body is of a type that is not taken.",
    422: "A field is wrong; `field` names it.",
    501: "Known, and not served here.",
    502: "A replica did not answer properly.",
    503: "Not now; the same request later may succeed.",
}
_ERROR = {
    "type": "object",
    "required": ["detail", "reason"],
    "properties": {name: {"type": "string"} for name in ("detail", "reason", "field")},
}


@cache
def document() -> bytes:
    """The OpenAPI document."""
    app = FastAPI(title="Steelyard", version=__version__, openapi_url=None, docs_url=None, redoc_url=None)
    for route in _listed():
        app.router.routes.append(_declared(route))
    content = app.openapi()
    components = content.setdefault("components", {})
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}
    components["schemas"]["Error"] = _ERROR
    _remove_framework_errors(content)
    return orjson.dumps(content)


def _remove_framework_errors(content: dict[str, Any]) -> None:
    """FastAPI adds a 422 of its own form to every operation that has a parameter and documents none."""
    for operations in content["paths"].values():
        for operation in operations.values():
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        content["components"]["schemas"].pop(name, None)


@cache
def page() -> str:
    """The same for people: one self-contained page."""
    rows = "".join(_row(route) for route in _listed())
    return _PAGE.format(version=html.escape(__version__), rows=rows)


def check_text(route: Route) -> str:
    """Say in words who may call the route."""
    match route.check:
        case Grant(resource, function):
            return f"{resource}/{function}"
        case Administrator():
            return "an administrator's grant"
        case Signed():
            return "a signed URL"
        case Public():
            return "anybody"


def error_statuses(route: Route) -> list[int]:
    """Statuses other than the wanted answer that the route may give."""
    statuses = set(route.errors)
    if not isinstance(route.check, Public):
        statuses |= {403, 503}
    if isinstance(route.check, Grant | Administrator):
        statuses.add(401)
    if "{" in route.path:
        statuses.add(404)
    if route.method in {"POST", "PUT", "PATCH"}:
        statuses |= (
            {400, 409, 413, 415, 422} if isinstance(route.check, Grant | Administrator) else {400, 413, 422}
        )
    if route.parameters:
        statuses.add(422)
    return sorted(statuses)


def _listed() -> Iterable[Route]:
    """A WebSocket has no place in an OpenAPI document: its description is in the logs' one."""
    return [route for route in routes() if route.method != "WEBSOCKET"]


def _declared(route: Route) -> APIRoute:
    described = (inspect.getdoc(route.handler) or "").split("\n\n", maxsplit=1)[0]
    security: list[dict[str, list[str]]] = (
        [{"token": []}] if isinstance(route.check, Grant | Administrator) else []
    )
    answers = {status: _error(_ERRORS[status]) for status in error_statuses(route)}
    return APIRoute(
        route.path,
        _signature(route),
        methods=[route.method],
        tags=[route.tag] if route.tag else None,
        summary=route.summary,
        description=f"{described}\n\nTakes {check_text(route)}.",
        response_model=route.answer,
        response_class=_response_class(route.media),
        responses=answers,  # type: ignore[arg-type]
        operation_id=f"{route.method.lower()}_{route.path.strip('/').replace('/', '_')}".translate(_NAMES),
        openapi_extra={"security": security},
    )


def _response_class(media: str) -> type[Response]:
    """FastAPI reads the content type of an answer from a class."""
    return JSONResponse if media == JSON else type("Documented", (Response,), {"media_type": media or None})


_NAMES = str.maketrans({"{": None, "}": None, ":": "_", ".": "_"})


def _error(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _signature(route: Route) -> Callable[..., None]:
    """A function that takes what the row says: FastAPI reads signatures."""

    def documented(**values: object) -> None:
        """Never called."""

    kind = inspect.Parameter.KEYWORD_ONLY
    names = [part.strip("{}").removesuffix(":path") for part in route.path.split("/") if part[:1] == "{"]
    parameters = [inspect.Parameter(name, kind, annotation=str) for name in names]
    for each in route.parameters:
        # FastAPI takes parameters of one name for one; `id` is also a filter of every kind.
        about = Query(alias=each.name, description=each.description)
        parameters.append(
            inspect.Parameter(
                f"query_{each.name}", kind, default=None, annotation=Annotated[str | None, about]
            )
        )
    if route.request is not None:
        parameters.append(inspect.Parameter("body", kind, annotation=Annotated[route.request, Body()]))
    documented.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return documented


def _row(route: Route) -> str:
    """One row of the page's table."""
    described = (inspect.getdoc(route.handler) or "").split("\n\n", maxsplit=1)[0]
    parameters = ", ".join(each.name for each in route.parameters)
    cells = (
        f"<code>{route.method}</code>",
        f"<code>{html.escape(route.path)}</code>",
        html.escape(route.summary) + (f"<br><small>{html.escape(described)}</small>" if described else ""),
        f"<code>{html.escape(_name(route.request))}</code>" if route.request else html.escape(parameters),
        f"<code>{html.escape(_name(route.answer))}</code>" if route.answer else "",
        html.escape(check_text(route)),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def _name(model: Any) -> str:
    return (
        str(getattr(model, "__name__", model))
        if not getattr(model, "__args__", None)
        else (f"list of {model.__args__[0].__name__}")
    )


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
<table><thead><tr><th>Method</th><th>Path</th><th>What for</th><th>Takes</th><th>Answers</th><th>Who may</th></tr>
</thead><tbody>
{rows}</tbody></table></body></html>
"""
