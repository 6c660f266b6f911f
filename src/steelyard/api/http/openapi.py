"""The OpenAPI document of the API, made from the route table and the schema's models."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import orjson
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from starlette.routing import compile_path

from steelyard.api.http.access import Administrator, AnyPrincipal, Grant, Public, SignedUrl
from steelyard.api.http.errors import JSON
from steelyard.api.http.routing import ANY, Route
from steelyard_common import __version__
from steelyard_common.types import Json

Mode = Literal["validation", "serialization"]
"""Requests are described as they are validated, answers as they are written: a default is required in an answer."""
Schemas = Mapping[tuple[Any, Mode], Json]

_ERRORS: dict[int, str] = {
    400: "The request as such is not readable; `field` names what of it.",
    401: "The token is missing, or no longer valid.",
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
_ERROR_SCHEMA = {
    "type": "object",
    "required": ["detail", "reason"],
    "properties": {name: {"type": "string"} for name in ("detail", "reason", "field")},
}
_REFERENCE = "#/components/schemas/{model}"
_OPERATION_ID = str.maketrans({"{": None, "}": None, "/": "_", ":": "_", ".": "_"})


class _Generator(GenerateJsonSchema):
    """JSON Schema without `default: null`: a field that has no value is absent from JSON, never null."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        described = super().default_schema(schema)
        return {key: value for key, value in described.items() if (key, value) != ("default", None)}


def document(routes: Iterable[Route], address: str = "/") -> bytes:
    """Return the document as JSON, for an API at this address.

    WebSocket routes have no place in it: their page is the logs' one.
    """
    routes = [route for route in routes if route.method != "WEBSOCKET"]
    schemas, components = _schemas(routes)
    paths: dict[str, Json] = {}
    for route in routes:
        path = compile_path(route.path)[1]
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas)
    return orjson.dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Steelyard",
                "version": __version__,
                "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
            },
            # Clients append a path, which begins with a slash: the address ends in none, unless it is "/" alone.
            "servers": [{"url": address, "description": "This platform"}],
            "paths": paths,
            "components": {
                "schemas": {**dict(sorted(components.items())), "Error": _ERROR_SCHEMA},
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
            },
        }
    )


def first_paragraph(route: Route) -> str:
    """Return the first paragraph of the handler's docstring."""
    return (inspect.getdoc(route.handler) or "").split("\n\n", maxsplit=1)[0]


def check_text(route: Route) -> str:
    """Return in words who may call the route."""
    match route.check:
        case Grant(resource, published=published) as grant:
            needed = " or ".join(f"{resource}/{function}" for function in grant.functions)
            return f"{needed}, for public entities of any account too" if published else needed
        case Administrator():
            return "an administrator's grant"
        case AnyPrincipal():
            return "any token"
        case SignedUrl():
            return "a signed URL"
        case Public():
            return "anybody"


def error_statuses(route: Route) -> list[int]:
    """Return the error statuses that the route may answer with, sorted."""
    statuses = set(route.errors)
    if not isinstance(route.check, Public):
        statuses |= {403, 503}
    if isinstance(route.check, Grant | Administrator):
        statuses.add(401)
    if "{" in route.path:
        statuses.add(404)
    if "{id}" in route.path:
        statuses.add(409)  # for GET too: an entity that only an older schema accepts cannot be read whole
    if route.method in {"POST", "PUT", "PATCH"}:
        statuses |= (
            {400, 409, 413, 415, 422} if isinstance(route.check, Grant | Administrator) else {400, 413, 422}
        )
    if route.parameters or route.refuses_parameters:
        statuses.add(422)
    return sorted(statuses)


def _schemas(routes: Sequence[Route]) -> tuple[Schemas, Json]:
    """Return the schema of each body and answer, most of them references, and the components that they refer to."""
    bodies: list[tuple[Any, Mode]] = [(route.request, "validation") for route in routes]
    answers: list[tuple[Any, Mode]] = [(route.answer, "serialization") for route in routes]
    inputs = {
        (kind, mode): (kind, mode, TypeAdapter(kind)) for kind, mode in bodies + answers if kind is not None
    }
    schemas, definitions = TypeAdapter.json_schemas(
        list(inputs.values()), ref_template=_REFERENCE, schema_generator=_Generator
    )
    return schemas, definitions["$defs"]


def _operation(route: Route, schemas: Schemas) -> Json:
    operation: Json = {"tags": [route.tag]} if route.tag else {}
    operation["summary"] = route.summary
    operation["description"] = f"{first_paragraph(route)}\n\nTakes {check_text(route)}.".strip()
    operation["operationId"] = f"{route.method.lower()}_{route.path.strip('/')}".translate(_OPERATION_ID)
    if parameters := _parameters(route):
        operation["parameters"] = parameters
    if route.request is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": schemas[route.request, "validation"]}},
        }
    operation["responses"] = _responses(route, schemas)
    operation["security"] = [{"token": []}] if isinstance(route.check, Grant | Administrator) else []
    return operation


def _parameters(route: Route) -> list[Json]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in compile_path(route.path)[2]
    ]
    in_query = [
        {
            "name": parameter.name,
            "in": "query",
            "required": False,
            "schema": parameter.schema,
            "description": parameter.description,
        }
        for parameter in route.parameters
    ]
    return in_path + in_query


def _responses(route: Route, schemas: Schemas) -> Json:
    success: Json = {"description": "Successful Response"}
    if route.media:
        schema = {"type": "string"} if route.media != JSON else {}
        if route.answer is not None:
            schema = schemas[route.answer, "serialization"]
        success["content"] = {route.media: {"schema": schema}}
    anything: Json = {ANY: {"schema": {}}}
    error = anything if route.forwarded else {JSON: {"schema": {"$ref": _REFERENCE.format(model="Error")}}}
    errors = {
        str(status): {"description": _ERRORS[status], "content": error} for status in error_statuses(route)
    }
    part = (
        {"206": {**success, "description": "The part of the file that `Range` names"}}
        if route.partial
        else {}
    )
    others = {"description": "The answer of the program that was asked.", "content": anything}
    return {"200": success} | part | errors | ({"default": others} if route.forwarded else {})
