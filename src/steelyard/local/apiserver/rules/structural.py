"""Structural schemas: what a definition's schema may hold, and what of it this server can enforce."""

from collections.abc import Iterator

from steelyard.local.apiserver.errors import Cause, forbidden_field, invalid, required, unsupported
from steelyard.local.apiserver.expressions.refusals import refused
from steelyard.local.apiserver.expressions.values import rooted
from steelyard.local.apiserver.validation import Validator
from steelyard.types import Json, mapping, sequence

_TYPES = ["array", "boolean", "integer", "number", "object", "string"]
_REFUSED = [
    "$ref", "definitions", "dependencies", "deprecated", "discriminator", "id", "patternProperties", "readOnly",
    "writeOnly", "xml", "uniqueItems",
]  # fmt: skip


def structural_causes(schema: Json, path: str) -> list[Cause]:
    if not schema.get("type"):
        return [required(f"{path}.type", "must not be empty at the root")]
    if schema["type"] != "object":
        return [invalid(f"{path}.type", schema["type"], "must be object at the root")]
    return list(_causes(schema, path, root=True, apart=""))


def _causes(schema: Json, path: str, *, root: bool, apart: str) -> Iterator[Cause]:
    """`apart`: the list whose items cannot be told from each other, if the schema is of something in one."""
    yield from _own_causes(schema, path, root=root)
    for index, rule in enumerate(sequence(schema, "x-kubernetes-validations")):
        own = rooted(schema) if root else schema
        yield from refused(rule, own, f"{path}.x-kubernetes-validations[{index}]", apart)
    if isinstance(items := schema.get("items"), dict):
        keyed = schema.get("x-kubernetes-list-type") == "map"
        yield from _causes(items, f"{path}.items", root=False, apart=apart if keyed else path)
        yield from _list_causes(schema, items, path)
    if isinstance(extra := schema.get("additionalProperties"), dict):
        yield from _causes(extra, f"{path}.additionalProperties", root=False, apart=apart)
    for name, property_schema in mapping(schema, "properties").items():
        # The server's own schema of metadata counts, whatever a definition says of it.
        if root and name == "metadata":
            continue
        yield from _causes(property_schema, f"{path}.properties[{name}]", root=False, apart=apart)


def _own_causes(schema: Json, path: str, *, root: bool) -> Iterator[Cause]:
    kind = schema.get("type")
    loose = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not kind and not loose:
        yield required(f"{path}.type", "must not be empty for specified object fields")
    elif kind and kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    if schema.get("properties") and schema.get("additionalProperties"):
        yield forbidden_field(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    if kind == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    if "default" in schema:
        # A default that its own schema refuses would make every object invalid that leaves the field out.
        for cause in Validator(schema).causes_of(schema["default"]):
            yield Cause(f"{path}.default", cause.message, cause.reason)
    for name in _REFUSED:
        if schema.get(name):
            yield forbidden_field(f"{path}.{name}", f"{name} is not supported")
    if (pattern := schema.get("pattern")) and not _compiles(pattern):
        yield Cause(f"{path}.pattern", f"Invalid value: {pattern!r}: not a regular expression")


def _compiles(pattern: str) -> bool:
    """Tries the engine that will match: like a real server's, it knows no lookaround and no backreferences."""
    try:
        Validator({"type": "string", "pattern": pattern})
    except ValueError:
        return False
    return True


def _list_causes(schema: Json, items: Json, path: str) -> Iterator[Cause]:
    """Keys of a list map are there: required, or with a default."""
    keys = sequence(schema, "x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") == "map" and not keys:
        yield required(
            f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map"
        )
    for key in keys:
        field = mapping(items, "properties").get(key)
        where = f"{path}.items.properties[{key}]"
        if field is None:
            text = "entries must all be names of item properties"
            yield Cause(f"{path}.x-kubernetes-list-map-keys[0]", f'Invalid value: "{key}": {text}')
        elif key not in sequence(items, "required") and "default" not in field:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{where}.default", text)
