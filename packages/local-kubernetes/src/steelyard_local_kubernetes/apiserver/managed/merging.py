"""An applied value merged into the live one, and fields taken out of a value. Neither is changed."""

from collections import Counter
from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.managed.fieldset import FieldSet, field_element
from steelyard_local_kubernetes.apiserver.managed.shape import (
    ANY,
    MISSING,
    below,
    is_declared,
    is_granular_list,
    list_elements,
    shape_kind,
)
from steelyard_local_kubernetes.apiserver.schema import Node


def merge(node: Node, live: Any, applied: Any) -> Any:
    """`applied` over `live`; MISSING where nothing is left."""
    result: Any = MISSING
    for kind in {shape_kind(node, value): None for value in (live, applied) if value is not MISSING}:
        result = _merge_as(kind, node, live, applied)
    return result


def _merge_as(kind: str, node: Node, live: Any, applied: Any) -> Any:
    whole = applied if applied is not MISSING else live
    if kind == "scalar":
        return whole
    container = dict if kind == "map" else list
    before: Any
    after: Any
    before, after = (value if isinstance(value, container) else container() for value in (live, applied))
    granular = not node.atomic if kind == "map" else is_granular_list(node)
    if not granular or not (before or after):
        return whole
    result = _merge_maps(node, before, after) if kind == "map" else _merge_lists(node, before, after)
    return result or MISSING


def _merge_maps(node: Node, live: Json, applied: Json) -> Json:
    result: Json = {}
    for name in [*live, *(name for name in applied if name not in live)]:
        value = merge(below(node, name), live.get(name, MISSING), applied.get(name, MISSING))
        if value is not MISSING:
            result[name] = value
    return result


def _merge_lists(node: Node, live: list[Any], applied: list[Any]) -> list[Any]:
    """Items that only one side has keep their place next to those that both have; those go in the applied order."""
    left, right = list_elements(node, live), list_elements(node, applied)
    old, new = _once(left, live), dict(zip(right, applied, strict=True))
    shared = iter([element for element in right if element in old])
    following, taken = next(shared, None), set[str]()
    result: list[Any] = []

    def take(element: str, before: Any, after: Any) -> None:
        value = merge(node.items or ANY, before, after)
        if value is not MISSING:
            result.append(value)

    at, place = 0, 0
    while at < len(left) or place < len(right):
        if at < len(left) and place < len(right):
            element = left[at]
            if element == right[place]:
                taken.add(element)
                take(element, old[element], new[element])
                at, place, following = at + 1, place + 1, next(shared, None)
                continue
            if element in new and following is not None and following != element:
                at += 1  # applied too, but later
                continue
        if at < len(left):
            element = left[at]
            if element not in new:
                take(element, live[at], MISSING)
                at += 1
                continue
            if element in taken:
                at += 1
        if place < len(right):
            element = right[place]
            taken.add(element)
            take(element, old.get(element, MISSING), new[element])
            place += 1
            if following == element:
                following = next(shared, None)
    return result


def _once(elements: list[str], items: list[Any]) -> dict[str, Any]:
    """Items by element; of those that are there twice none is merged with."""
    counts = Counter(elements)
    return {
        element: item if counts[element] == 1 else None for element, item in zip(elements, items, strict=True)
    }


# ---- taking out


def without(node: Node, value: Any, fields: FieldSet) -> Any:
    """The value without these fields; null where nothing is left."""
    match shape_kind(node, value):
        case "map" if isinstance(value, dict):
            return (not node.atomic and _map_without(node, value, fields)) or None
        case "list" if isinstance(value, list):
            return (is_granular_list(node) and _list_without(node, value, fields)) or None
    return value


def _map_without(node: Node, value: Json, fields: FieldSet) -> Json:
    result: Json = {}
    for name, member in value.items():
        element = field_element(name)
        if element in fields.members:
            continue
        inner = fields.children.get(element)
        result[name] = without(below(node, name), member, inner) if inner else member
    return result


def _list_without(node: Node, value: list[Any], fields: FieldSet) -> list[Any]:
    result: list[Any] = []
    for element, item in zip(list_elements(node, value), value, strict=True):
        if element in fields.members:
            continue
        inner = fields.children.get(element)
        result.append(without(node.items or ANY, item, inner) if inner else item)
    return result


def with_named_fields(node: Node, fields: FieldSet) -> FieldSet:
    """The set with those fields as members that the schema names and that have members below them."""
    members, children = set(fields.members), {}
    for element, inner in fields.children.items():
        name = element.removeprefix("f:") if element.startswith("f:") else ""
        if name and is_declared(node, name):
            members.add(element)
        inner_node = below(node, name) if element.startswith("f:") else node.items or ANY
        children[element] = with_named_fields(inner_node, inner)
    return FieldSet(members, children)
