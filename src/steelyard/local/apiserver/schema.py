"""Fields of a kind, compiled from its OpenAPI schema: drops unknown fields, checks types, fills in defaults.

For built-in kinds (schemas of `published.py`) and custom ones alike (structural schemas of their definitions).
"""

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from steelyard.local.apiserver.quantity import quantity
from steelyard.types import Json, sequence

Resolve = Callable[[str], "Node"]
_MISSING = object()


@dataclass(slots=True)
class Node:
    """One field's schema. Without `type`, anything goes."""

    type: str = ""
    bits: int = 64  # of integers
    properties: "dict[str, Node] | None" = None
    items: "Node | None" = None
    values: "Node | None" = None  # additionalProperties
    preserve: bool = True  # unknown fields stay
    embedded: bool = False
    nullable: bool = False
    default: Any = _MISSING
    merge_key: str | None = None  # of lists that a strategic merge patch merges; empty where items are values
    list_type: str = ""  # map, set or, empty, atomic: how server-side apply merges a list
    list_keys: tuple[str, ...] = ()
    atomic: bool = False  # a map that server-side apply replaces as a whole
    plain_text: bool = False  # a string without a format
    required: bool = False
    always: tuple[str, ...] = ()  # properties that Go writes even if they are empty

    @property
    def has_default(self) -> bool:
        return self.default is not _MISSING


def no_references(name: str) -> Node:
    raise ValueError(f"$ref is not allowed here: {name}")


def compile_schema(schema: Json, resolve: Resolve = no_references) -> Node:
    if reference := _reference(schema):
        return resolve(reference)  # the same node for all who refer to it: schemas may refer to themselves
    node = Node()
    fill(node, schema, resolve)
    return node


def fill(node: Node, schema: Json, resolve: Resolve) -> None:
    """Compile into an existing node, which may already be referred to."""
    node.type = _type(schema)
    # Go's decoder refuses what does not fit: a larger number would be taken here, and refused on a cluster.
    node.bits = 32 if node.type == "int-or-string" or schema.get("format") == "int32" else 64
    node.nullable = bool(schema.get("nullable"))
    node.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    node.default = schema.get("default", _MISSING)
    if "merge" in (schema.get("x-kubernetes-patch-strategy") or "").split(","):
        node.merge_key = schema.get("x-kubernetes-patch-merge-key") or ""
    _fill_ownership(node, schema)
    if "items" in schema:
        node.items = compile_schema(schema["items"], resolve)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        node.values = compile_schema(extra, resolve)
    if "properties" in schema:
        node.properties = {}
        for name, property_schema in schema["properties"].items():
            below = node.properties[name] = compile_schema(property_schema, resolve)
            # Lists and maps are never shared: a node that others refer to has no field of its own here.
            if below.type == "array" or below.values is not None:
                below.required = name in sequence(schema, "required")
        node.always = tuple(
            name for name, below in node.properties.items() if _is_always_there(schema, name, below)
        )
    kept = schema.get("x-kubernetes-preserve-unknown-fields") or extra is True
    bare = node.properties is None and node.values is None
    # Kubernetes prunes an object of which a definition names no field. Of a built-in kind such an object is free-form.
    if bare and not kept and node.type == "object" and resolve is no_references:
        node.properties, bare = {}, False
    node.preserve = bool(kept) or bare


def _fill_ownership(node: Node, schema: Json) -> None:
    """Set the fields that server-side apply reads."""
    node.atomic = schema.get("x-kubernetes-map-type") == "atomic"
    node.plain_text = node.type == "string" and schema.get("format", "byte") == "byte"
    listed = schema.get("x-kubernetes-list-type")
    if listed is None and node.merge_key is not None:
        # What a strategic merge patch merges by a key, applies merge by it, too.
        node.list_type, node.list_keys = ("map", (node.merge_key,)) if node.merge_key else ("set", ())
    elif listed in ("map", "set"):
        node.list_type, node.list_keys = listed, tuple(sequence(schema, "x-kubernetes-list-map-keys"))


def _reference(schema: Json) -> str:
    """The name that a schema refers to; the published ones wrap a reference with a default in `allOf`."""
    reference = schema.get("$ref")
    parts: list[Json] = sequence(schema, "allOf")
    if not reference and len(parts) == 1 and "type" not in schema:
        reference = parts[0].get("$ref")
    return str(reference or "").removeprefix("#/components/schemas/")


def _type(schema: Json) -> str:
    if schema.get("format") == "date-time" and schema.get("type") == "string":
        return "time"
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return "int-or-string"
    if "oneOf" in schema and "type" not in schema:
        return "int-or-string"  # Quantity and IntOrString are published so
    kind = schema.get("type", "")
    return kind if isinstance(kind, str) else ""


# ---- unknown fields


def drop_unknown(node: Node, value: Any, path: str = "") -> list[str]:
    """Removes what the schema does not know, in place, and names it."""
    unknown: list[str] = []
    _drop(node, value, path, unknown)
    return unknown


def _drop(node: Node, value: Any, path: str, unknown: list[str]) -> None:
    if isinstance(value, list):
        if node.items is not None:
            for index, item in enumerate(value):
                _drop(node.items, item, f"{path}[{index}]", unknown)
    elif isinstance(value, dict) and (node.properties is not None or node.values is not None):
        _drop_fields(node, value, path, unknown)


def _drop_fields(node: Node, value: Json, path: str, unknown: list[str]) -> None:
    properties = node.properties or {}
    for name in list(value):
        below = properties.get(name, node.values)
        where = f"{path}.{name}" if path else name
        if below is not None:
            _drop(below, value[name], where, unknown)
        # A whole object within another has these three, whether its schema names them or not.
        elif not node.preserve and not (node.embedded and name in ("apiVersion", "kind", "metadata")):
            unknown.append(where)
            del value[name]


# ---- defaults


def fill_defaults(node: Node, value: Any) -> None:
    """Sets absent fields that have a default, in place; null where it is not allowed counts as absent."""
    if isinstance(value, list) and node.items is not None:
        for item in value:
            fill_defaults(node.items, item)
    elif isinstance(value, dict):
        for name, below in (node.properties or {}).items():
            if below.default is not _MISSING and _absent(below, value.get(name, _MISSING)):
                # A copy: the next object would otherwise get what this one has made of it.
                value[name] = copy.deepcopy(below.default)
            # Kubernetes drops such a null instead of refusing it: clients that write every field send many.
            if name in value and value[name] is None and below.type and not below.nullable:
                del value[name]
            if name in value:
                fill_defaults(below, value[name])
        if node.values is not None:
            for name, member in value.items():
                if name not in (node.properties or {}):
                    fill_defaults(node.values, member)


def _absent(node: Node, value: Any) -> bool:
    return value is _MISSING or (value is None and not node.nullable)


# ---- types


class WrongType(Exception):
    """A field of another type than the schema's, in the words of Go's decoder."""


def wrong_type(path: str, value: object, wanted: str) -> WrongType:
    return WrongType(
        f"json: cannot unmarshal {_type_name(value)} into Go struct field {path} of type {wanted}"
    )


_GO = {"boolean": "bool", "number": "float64", "object": "struct", "array": "slice"}
_GO |= {"time": "Time", "quantity": "Quantity", "int-or-string": "int32"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def check_types(node: Node, value: Any, path: str = "") -> None:
    """Raises WrongType; nulls in objects are removed, as Go's decoder takes them for absent."""
    if not node.type:
        return
    if not _fits(node, value):
        wanted = f"int{node.bits}" if node.type == "integer" else _GO.get(node.type, node.type)
        raise wrong_type(path, value, wanted)
    if node.type in ("time", "quantity"):
        _check_text(node.type, value, path)
    if isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            check_types(node.items, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        _check_fields(node, value, path)


def _check_text(kind: str, value: object, path: str) -> None:
    """Texts that Go decodes into something."""
    try:
        if kind == "quantity":
            quantity(value)
        else:
            check_time(str(value))
    except (ValueError, OverflowError) as error:
        text = f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse it ({path})'
        raise WrongType(str(error) if kind == "quantity" else text) from error


def check_time(text: str) -> None:
    """ValueError or OverflowError for what is no moment in RFC 3339, or one outside the years 1 to 9999."""
    if not _TIME.fullmatch(text):
        raise ValueError(text)
    # In UTC, too: a time in the first hours of year 1 east of Greenwich is before all times that others can read.
    datetime.fromisoformat(text).astimezone(UTC)


def _check_fields(node: Node, value: Json, path: str) -> None:
    for name in list(value):
        below = (node.properties or {}).get(name, node.values)
        if below is not None and (value[name] is None or (not value[name] and _is_left_out(below))):
            del value[name]
        elif below is not None:
            check_types(below, value[name], f"{path}.{name}" if path else name)


def _is_always_there(schema: Json, name: str, node: Node) -> bool:
    """Tell whether Go writes a property also where nothing is set: a struct that is no pointer, a required list."""
    published = schema["properties"][name]
    return (bool(_reference(published)) and published.get("default") == {}) or (
        node.type == "array" and node.required
    )


def _is_left_out(node: Node) -> bool:
    """Tell whether Go leaves out such a list or map where it is empty."""
    listed = node.type == "array" or (node.values is not None and not node.properties)
    return listed and not node.required


def _fits(node: Node, value: object) -> bool:  # noqa: PLR0911
    match node.type:
        case "string" | "time":
            return isinstance(value, str)
        case "integer":
            return _is_integer(value, node.bits)
        case "number":
            # To Python true is a number.
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "int-or-string":
            return isinstance(value, str) or _is_integer(value, node.bits)
        case "quantity":
            return isinstance(value, str | int | float) and not isinstance(value, bool)
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case _:
            return True


def _is_integer(value: object, bits: int) -> bool:
    limit = 1 << (bits - 1)
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _type_name(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return f"number {value}"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "null"
