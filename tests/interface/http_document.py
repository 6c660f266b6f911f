"""Lists the API: every operation with its parameters, body and answers, and every field of the schemas."""

import json
from collections.abc import Iterator

from steelyard.api.http.openapi import document
from steelyard.api.routes import routes
from steelyard_common.types import Json
from tests.interface.schemas import compact, field_lines


def lines() -> list[str]:
    """The listing, operations first."""
    served = json.loads(document(routes()))
    operations = [
        line
        for path, methods in sorted(served["paths"].items())
        for method, operation in sorted(methods.items())
        for line in _operation(f"{method.upper()} {path}", operation)
    ]
    components = served["components"]
    schemas = [
        line for name, node in sorted(components["schemas"].items()) for line in field_lines(name, node)
    ]
    return operations + schemas + [f"securitySchemes {compact(components['securitySchemes'])}"]


def _operation(name: str, operation: Json) -> Iterator[str]:
    yield f"{name} {operation['operationId']} {compact(operation.get('security', []))}"
    for parameter in sorted(operation.get("parameters", ()), key=lambda parameter: str(parameter["name"])):
        required = " required" if parameter["required"] else ""
        yield f"{name} {parameter['in']} {parameter['name']}{required} {compact(parameter['schema'])}"
    if "requestBody" in operation:
        yield f"{name} body {compact(operation['requestBody'])}"
    by_answer: dict[str, list[str]] = {}
    for status, answer in sorted(operation["responses"].items()):
        by_answer.setdefault(compact(answer.get("content", {})), []).append(status)
    yield from (f"{name} answers {', '.join(statuses)} {answer}" for answer, statuses in by_answer.items())
