"""Fields of a kind, compiled from its OpenAPI schema: drops unknown fields, fills in defaults.

For built-in kinds (schemas of `published.py`) and custom ones alike (structural schemas of their definitions).
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from steelyard_common.types import Json, sequence

Resolve = Callable[[str], "Node"]
_MISSING = object()
_EXACT = 1 << 53  # whole numbers below it are the same as a float


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
    metadata: "Callable[[], Node] | None" = None  # of an embedded object
    nullable: bool = False
    default: Any = _MISSING
    merge_key: str | None = None  # of lists that a strategic merge patch merges; empty where items are values
    list_type: str = ""  # map, set or, empty, atomic: how server-side apply merges a list
    list_keys: tuple[str, ...] = ()
    atomic: bool = False  # a map that server-side apply replaces as a whole
    plain_text: bool = False  # a string without a format
    part: "Node | None" = None  # a value that Go decodes for itself: a schema, or what may stand in its place
    # Of built-in kinds alone, from `gotypes.py`:
    base64: bool = False
    go: str = ""  # the type as Go prints it
    struct: str = ""  # the name of a structure
    left_out: frozenset[str] = frozenset()  # properties that Go leaves out where they are empty
    kept: frozenset[str] = frozenset()  # those of them that a refusal shows as they were sent, and empty ones
    gated: frozenset[str] = frozenset()  # properties that are read and dropped
    written: dict[str, Any] = field(default_factory=dict)  # properties that Go always writes, and as what

    @property
    def has_default(self) -> bool:
        return self.default is not _MISSING

    def below(self, name: str) -> "Node":
        """Return the schema of a field."""
        return (self.properties or {}).get(name) or self.values or ANYTHING

    def element(self) -> "Node":
        """Return the schema of a list's items."""
        return self.items or ANYTHING


ANYTHING = Node()


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
    # A larger number would be taken here, and refused on a cluster.
    node.bits = 32 if node.type == "int-or-string" or schema.get("format") == "int32" else 64
    node.nullable = bool(schema.get("nullable"))
    node.base64 = schema.get("format") == "byte" and node.type == "string"
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
            node.properties[name] = compile_schema(property_schema, resolve)
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
    elif isinstance(value, dict) and (
        node.properties is not None or node.values is not None or node.embedded
    ):
        _drop_fields(node, value, path, unknown)


def _drop_fields(node: Node, value: Json, path: str, unknown: list[str]) -> None:
    properties = node.properties or {}
    for name in list(value):
        below = properties.get(name, node.values)
        where = f"{path}.{name}" if path else name
        member = value[name]
        if type(member) is float and member.is_integer() and abs(member) < _EXACT:
            value[name] = int(member)  # Go writes a whole number without a point
        if below is not None:
            _drop(below, value[name], where, unknown)
        # A whole object within another has these three, whether its schema names them or not.
        elif node.embedded and name in ("apiVersion", "kind"):
            continue
        elif node.embedded and name == "metadata" and node.metadata is not None:
            _drop(node.metadata(), value[name], where, unknown)
        elif not node.preserve:
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
            for name, member in list(value.items()):
                if name in (node.properties or {}):
                    continue
                if member is None and node.values.type and not node.values.nullable:
                    del value[name]
                else:
                    fill_defaults(node.values, member)


def _absent(node: Node, value: Any) -> bool:
    return value is _MISSING or (value is None and not node.nullable)
