"""Lists the custom resources: their names, columns and rules, and every field of every version.

Of a Pod's template only the fields that are described are listed; the others are Kubernetes' own.
"""

from collections.abc import Iterator

from steelyard_common.types import Json
from steelyard_schema.crd import custom_resource_definitions
from tests.interface.schemas import compact, field_lines


def lines() -> list[str]:
    """The listing, in the order of the definitions."""
    return [line for definition in custom_resource_definitions() for line in _definition(definition)]


def _definition(definition: Json) -> Iterator[str]:
    spec = definition["spec"]
    kind = spec["names"]["kind"]
    yield f"{kind} {compact({name: value for name, value in spec.items() if name != 'versions'})}"
    for version in spec["versions"]:
        path = f"{kind}/{version['name']}"
        yield f"{path} {compact({name: value for name, value in version.items() if name != 'schema'})}"
        schema = version["schema"]["openAPIV3Schema"]
        fields = {**schema["properties"], "spec": _described(schema["properties"]["spec"])}
        yield from field_lines(path, {**schema, "properties": fields})


def _described(node: Json) -> Json:
    described = dict(node)
    if "properties" in node:
        fields = node["properties"].items()
        described["properties"] = {
            name: _described(field) for name, field in fields if "description" in field
        }
    for word in ("items", "additionalProperties"):
        if isinstance(node.get(word), dict):
            described[word] = _described(node[word])
    return described
