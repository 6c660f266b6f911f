"""Fields of a value: which there are, which differ between two, and whether an applied one fits its schema."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.managed.fieldset import FieldSet, field_element, path_text
from steelyard_local_kubernetes.apiserver.managed.shape import (
    ANY,
    MISSING,
    Unfit,
    below,
    is_declared,
    is_free,
    is_granular_list,
    item_element,
    list_elements,
    same,
    shape_kind,
)
from steelyard_local_kubernetes.apiserver.schema import Node

_MOST_FAULTS = 100  # that are named

# ---- fields of one value


def read_fields(node: Node, value: Any) -> FieldSet:
    """The fields that a value sets: leaves, items of lists, empty maps and keys of free maps."""
    return _fields(node, value) or FieldSet()


def _fields(node: Node, value: Any) -> FieldSet | None:
    """None for a leaf, which belongs to what contains it."""
    kind = shape_kind(node, value)
    if kind == "map" and isinstance(value, dict) and not node.atomic:
        return _map_fields(node, value)
    if kind == "list" and isinstance(value, list) and is_granular_list(node):
        return _list_fields(node, value)
    return None


def _map_fields(node: Node, value: Json) -> FieldSet:
    fields = FieldSet()
    for name, member in value.items():
        element, inner = field_element(name), _fields(below(node, name), member)
        if inner is None or member == {} or not is_declared(node, name):
            fields.members.add(element)
        if inner:
            fields.children[element] = inner
    return fields


def _list_fields(node: Node, value: list[Any]) -> FieldSet:
    fields = FieldSet()
    elements = list_elements(node, value)
    counts = Counter(elements)
    for element, item in zip(elements, value, strict=True):
        if not element:
            continue
        fields.members.add(element)
        # Of items that are there twice only the element is a field: it is unknown which one is meant.
        if counts[element] == 1 and (inner := _fields(node.items or ANY, item)):
            fields.children[element] = inner
    return fields


# ---- differences


@dataclass
class Difference:
    """Fields that differ between two values; none is in two of these sets."""

    removed: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    added: FieldSet = field(default_factory=FieldSet)

    def without(self, fields: FieldSet) -> "Difference":
        return Difference(*(part.without_below(fields) for part in (self.removed, self.modified, self.added)))


def difference(node: Node, old: Any, new: Any) -> Difference:
    result = Difference()
    _compare_maps(node, old, new, result)
    return result


def _compare(node: Node, element: str, old: Any, new: Any, result: Difference) -> None:
    """Compare the values at an element, into the sets of the node that contains it."""
    inner, leaf = Difference(), False
    # A free value may have become another kind of value: it is compared as both.
    for kind in {shape_kind(node, value): None for value in (old, new) if value is not MISSING}:
        leaf = _compare_as(kind, node, old, new, inner)
        if leaf:
            _compare_leaf(element, old, new, result)
    if not leaf and old is MISSING:
        result.added.members.add(element)
    elif not leaf and new is MISSING:
        result.removed.members.add(element)
    for name in ("removed", "modified", "added"):
        if part := getattr(inner, name):
            getattr(result, name).children[element] = part


def _compare_as(kind: str, node: Node, old: Any, new: Any, inner: Difference) -> bool:
    """Compare below, or report that this is a leaf."""
    if kind == "scalar":
        return True
    container = dict if kind == "map" else list
    before: Any
    after: Any
    before, after = (value if isinstance(value, container) else container() for value in (old, new))
    granular = not node.atomic if kind == "map" else is_granular_list(node)
    # Two empty ones are a leaf: so an empty map and null are distinguished.
    if not granular or not (before or after):
        return True
    if kind == "map":
        _compare_maps(node, before, after, inner)
    else:
        _compare_lists(node, before, after, inner)
    return False


def _compare_leaf(element: str, old: Any, new: Any, result: Difference) -> None:
    if old is MISSING:
        result.added.members.add(element)
    elif new is MISSING:
        result.removed.members.add(element)
    elif not same(old, new):
        result.modified.members.add(element)


def _compare_maps(node: Node, old: Json, new: Json, result: Difference) -> None:
    for name in old.keys() | new.keys():
        before, after = old.get(name, MISSING), new.get(name, MISSING)
        _compare(below(node, name), field_element(name), before, after, result)


def _compare_lists(node: Node, old: list[Any], new: list[Any], result: Difference) -> None:
    before, after = _by_element(node, old), _by_element(node, new)
    items = node.items or ANY
    for element in before.keys() | after.keys():
        were, are = before.get(element, []), after.get(element, [])
        if len(were) <= 1 and len(are) <= 1:
            _compare(items, element, (*were, MISSING)[0], (*are, MISSING)[0], result)
        elif len(were) > 1 and len(are) > 1:
            if not same(were, are):
                result.modified.members.add(element)
        elif len(were) > 1:
            if are:
                _compare(items, element, MISSING, are[0], result)
            result.removed.members.add(element)
        else:
            if were:
                _compare(items, element, were[0], MISSING, result)
            result.added.members.add(element)


def _by_element(node: Node, items: list[Any]) -> dict[str, list[Any]]:
    """Items by their element; other writes than applies may have left several of one."""
    grouped: dict[str, list[Any]] = {}
    for element, item in zip(list_elements(node, items), items, strict=True):
        if element:
            grouped.setdefault(element, []).append(item)
    return grouped


# ---- fitting


def apply_faults(node: Node, value: Any) -> list[str]:
    """Reasons that keep a value from being applied, in a real server's words; the first ones of very many."""
    faults: list[str] = []
    _check(node, value, (), faults)
    return faults[:_MOST_FAULTS]


def _check(node: Node, value: Any, path: tuple[str, ...], faults: list[str]) -> None:
    if len(faults) >= _MOST_FAULTS:
        return None

    def fault(text: str) -> None:
        where = _place_text(path)
        faults.append(f"{where}: {text}" if where else text)

    match shape_kind(node, value):
        case "map" if value is not None:
            if not isinstance(value, dict):
                return fault(f"expected map, got &{{{_go_text(value)}}}")
            for name, member in value.items():
                if not (is_declared(node, name) or node.values or node.preserve or is_free(node)):
                    where = _place_text((*path, field_element(name)))
                    faults.append(f"{where}: field not declared in schema")
                else:
                    _check(below(node, name), member, (*path, field_element(name)), faults)
        case "list" if value is not None:
            if not isinstance(value, list):
                return fault(f"expected list, got &{{{_go_text(value)}}}")
            _check_items(node, value, path, faults)
        case "scalar" if value is not None:
            if text := _scalar_fault(node, value):
                fault(text)
    return None


def _check_items(node: Node, items: list[Any], path: tuple[str, ...], faults: list[str]) -> None:
    seen: set[str] = set()
    for index, item in enumerate(items):
        element = f"i:{index}"
        if is_granular_list(node):
            try:
                element = item_element(node, item)
            except Unfit as error:
                faults.append(f"{_place_text(path)}: element {index}: {error}")
                return
            if element in seen:
                faults.append(f"{_place_text(path)}: duplicate entries for key {path_text((element,))}")
            seen.add(element)
        _check(node.items or ANY, item, (*path, element), faults)


def _place_text(path: tuple[str, ...]) -> str:
    return "".join(f"[{part[2:]}]" if part.startswith("i:") else path_text((part,)) for part in path)


def _scalar_fault(node: Node, value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match node.type:
        case "integer" | "number" if not number:
            return f"expected numeric (int or float), got {_go_type(value)}"
        case "string" if node.plain_text and not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{_go_text(value)}}}"
        case "string" | "time" | "quantity" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{_go_text(value)}}}"
    return ""


def _go_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
    return "int64" if isinstance(value, int) else "float64"


def _go_text(value: Any) -> str:
    """A value as Go's %v prints it."""
    match value:
        case dict():
            return "map[" + " ".join(f"{name}:{_go_text(value[name])}" for name in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(_go_text, value)) + "]"
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
    return str(value)


def _go_syntax(value: Any) -> str:
    """A value as Go's %#v prints it."""
    match value:
        case dict():
            inner = ", ".join(f'"{name}":{_go_syntax(value[name])}' for name in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
        case str():
            return f'"{value}"'
    return _go_text(value)
