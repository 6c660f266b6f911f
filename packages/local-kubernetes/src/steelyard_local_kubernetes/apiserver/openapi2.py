"""The one OpenAPI document of version 2, in which older clients expect all kinds, made of those of version 3."""

from collections.abc import Iterable, Iterator

from steelyard_common.types import Json, mapping, sequence

_METHODS = ("get", "put", "post", "patch", "delete")
# Extensions that say what `$ref`, `format` and `type` cannot; others have no place in version 2.
_LEFT_OUT = (
    "default",
    "nullable",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "properties",
    "items",
    "additionalProperties",
)


def swagger(documents: Iterable[Json]) -> Json:
    """Merge the documents: each definition once, all paths."""
    definitions: Json = {}
    paths: Json = {}
    for document in documents:
        for name, schema in document["components"]["schemas"].items():
            if name not in definitions:
                definitions[name] = _schema(schema)
        paths |= {path: _path(operations) for path, operations in document["paths"].items()}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "1.34"},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
        "securityDefinitions": {
            "BearerToken": {
                "description": "Bearer Token authentication",
                "type": "apiKey",
                "name": "authorization",
                "in": "header",
            }
        },
        "security": [{"BearerToken": []}],
    }


def _schema(schema: Json) -> Json:
    lowered = {name: value for name, value in schema.items() if name not in _LEFT_OUT}
    if reference := schema.get("$ref"):
        lowered["$ref"] = _reference(reference)
    parts = sequence(schema, "allOf")
    if len(parts) == 1 and "$ref" in parts[0]:
        lowered["$ref"] = _reference(parts[0]["$ref"])
    # A quantity, a number or a text: version 2 knows no such choice.
    if "oneOf" in schema and "type" not in schema:
        lowered["type"] = "string"
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("nullable"):
        # As the real server: what version 2 cannot say of a field is not said, so that clients refuse nothing.
        lowered.pop("type", None)
        return lowered
    lowered |= dict(_below(schema))
    return lowered


def _below(schema: Json) -> Iterator[tuple[str, object]]:
    if "properties" in schema:
        yield "properties", {name: _schema(below) for name, below in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        yield "items", _schema(schema["items"])
    if isinstance(extra := schema.get("additionalProperties"), dict):
        yield "additionalProperties", _schema(extra)


def _reference(text: str) -> str:
    return text.replace("#/components/schemas/", "#/definitions/")


def _path(operations: Json) -> Json:
    path: Json = {method: _operation(operations[method]) for method in _METHODS if method in operations}
    if parameters := operations.get("parameters"):
        path["parameters"] = [_parameter(parameter) for parameter in parameters]
    return path


def _operation(operation: Json) -> Json:
    lowered: Json = {
        "description": "",
        "consumes": ["*/*"],
        "produces": ["application/json"],
        "schemes": ["https"],
        "operationId": operation["operationId"],
    }
    parameters = [_parameter(parameter) for parameter in sequence(operation, "parameters")]
    if body := mapping(operation, "requestBody"):
        media = body["content"]
        lowered["consumes"] = list(media)
        schema = _schema(next(iter(media.values()))["schema"])
        parameters.insert(0, {"name": "body", "in": "body", "required": True, "schema": schema})
    if parameters:
        lowered["parameters"] = parameters
    lowered["responses"] = {
        code: {
            "description": response["description"],
            "schema": _schema(next(iter(response["content"].values()))["schema"]),
        }
        for code, response in operation["responses"].items()
    }
    return lowered | {name: value for name, value in operation.items() if name.startswith("x-")}


def _parameter(parameter: Json) -> Json:
    lowered = {"uniqueItems": True, "type": parameter["schema"]["type"], "name": parameter["name"]}
    lowered["in"] = parameter["in"]
    return lowered | ({"required": True} if parameter.get("required") else {})
