"""JSON responses of the handlers."""

from collections.abc import Sequence

import orjson
from starlette.responses import Response

from steelyard.api.http.errors import JSON
from steelyard_schema.base import SchemaModel


def json_response(content: bytes) -> Response:
    """Return a response whose body is JSON already."""
    return Response(content, media_type=JSON)


def value_response(value: object) -> Response:
    """Return a response of plain values, among them a bare string or null."""
    return json_response(orjson.dumps(value))


def model_response(model: SchemaModel) -> Response:
    """Return a response of a model in its published form: JSON names, without absent fields."""
    return json_response(model.dump_json().encode())


def list_response(models: Sequence[SchemaModel]) -> Response:
    """Return a response of a JSON array of models."""
    return json_response(b"[%s]" % b",".join(model.dump_json().encode() for model in models))
