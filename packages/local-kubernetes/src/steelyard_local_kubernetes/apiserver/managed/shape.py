"""Values by the schema that says how they are merged: maps and lists as wholes, or item by item."""

from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.managed.fieldset import key_element, value_element
from steelyard_local_kubernetes.apiserver.schema import Node

ANY = Node()  # by its value: objects field by field, lists as wholes
MISSING = object()


class Unfit(Exception):
    """A value that does not fit its schema, in a real server's words."""


def shape_kind(node: Node, value: Any) -> str:
    """`map`, `list` or `scalar`."""
    if node.type == "object":
        return "map"
    if node.type == "array":
        return "list"
    if node.type:
        return "scalar"
    if value is None or isinstance(value, dict):
        return "map"
    return "list" if isinstance(value, list) else "scalar"


def is_granular_list(node: Node) -> bool:
    return node.type == "array" and node.list_type in ("map", "set")


def is_free(node: Node) -> bool:
    """Return whether any field may be in it."""
    return not node.properties and node.values is None


def is_declared(node: Node, name: str) -> bool:
    return bool(node.properties) and name in (node.properties or {})


def below(node: Node, name: str) -> Node:
    return (node.properties or {}).get(name) or node.values or ANY


def item_element(node: Node, item: Any) -> str:
    """Element that names an item of a granular list. Raises Unfit."""
    if node.list_type == "set":
        return _set_element(item)
    if item is None:
        raise Unfit("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise Unfit("associative list with keys may not have non-map elements")
    keys: Json = {}
    properties = (node.items.properties if node.items else None) or {}
    for name in node.list_keys:
        if name in item:
            keys[name] = item[name]
        elif name in properties and properties[name].has_default:
            keys[name] = properties[name].default
    if not keys:
        names = " ".join(f'"{name}"' for name in node.list_keys)
        text = f"associative list with keys has an element that omits all key fields [{names}]"
        raise Unfit(f"{text} (and doesn't have default values for any key fields)")
    return key_element(keys)


def _set_element(item: Any) -> str:
    if isinstance(item, dict):
        raise Unfit("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise Unfit("not supported: associative list with lists as elements")
    if item is None:
        raise Unfit("associative list without keys has an element that's an explicit null")
    return value_element(item)


def list_elements(node: Node, items: list[Any]) -> list[str]:
    """Elements of a stored list; an item without one is left out, since others wrote it."""
    elements = []
    for item in items:
        try:
            elements.append(item_element(node, item))
        except Unfit:
            elements.append("")
    return elements


def same(first: Any, second: Any) -> bool:
    """Equality of JSON: to Python true and 1 are the same."""
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


def with_empty_values(node: Node, value: Any) -> Any:
    """The value with what Go writes though it is empty: setting a field in it does not make a manager of it."""
    if isinstance(value, list):
        return [with_empty_values(node.items or ANY, item) for item in value]
    if not isinstance(value, dict) or not (node.properties or node.values):
        return value
    result = {name: with_empty_values(below(node, name), member) for name, member in value.items()}
    for name, empty in node.written.items():
        if result.get(name) is None:
            result[name] = with_empty_values(below(node, name), {}) if empty == {} else empty
    return result
