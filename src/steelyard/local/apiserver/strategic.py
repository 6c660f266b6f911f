"""Strategic merge patch, for built-in kinds: lists are merged by the key that the kind's schema names.

What `kubectl apply`, `edit` and `patch` send for these kinds, and the Python client for a patch that is an object.
`patching.py` asks.
"""

from typing import Any

from steelyard.local.apiserver import errors
from steelyard.local.apiserver.patch_refusals import go_text
from steelyard.local.apiserver.schema import Node
from steelyard.types import Json, sequence

_PATCH, _RETAIN = "$patch", "$retainKeys"
_ORDER, _REMOVE = "$setElementOrder/", "$deleteFromPrimitiveList/"
_ANY = Node()


def strategic_merge(node: Node, obj: Json, patch: Json) -> Json:
    """`obj` as the patch wants it; neither is changed."""
    sent, patch = patch, dict(patch)
    match patch.pop(_PATCH, "merge"):
        case "replace":
            return patch
        case "delete":
            return {}
        case "merge":
            return _merged(node, obj, patch)
        case other:
            raise errors.Refusal(500, "", f"unknown patch type: {go_text(other)} in map: {go_text(sent)}")


def _merged(node: Node, obj: Json, patch: Json) -> Json:
    merged = dict(obj)
    # For unions: a Deployment that becomes Recreate must lose the settings of its rolling update.
    if (kept := patch.pop(_RETAIN, None)) is not None:
        merged = {key: value for key, value in merged.items() if key in kept}
    orders = {key.removeprefix(_ORDER): patch.pop(key) for key in list(patch) if key.startswith(_ORDER)}
    for key in [key for key in patch if key.startswith(_REMOVE)]:
        name, gone = key.removeprefix(_REMOVE), patch.pop(key)
        merged[name] = [item for item in sequence(merged, name) if item not in gone]
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _value(_below(node, name), merged.get(name), value)
    for name in dict.fromkeys([*patch, *orders]):
        merge_key = _below(node, name).merge_key
        if merge_key is not None and isinstance(merged.get(name), list):
            order = orders.get(name) or patch.get(name) or []
            merged[name] = _ordered(merged[name], order, sequence(obj, name), merge_key)
    return merged


def _below(node: Node, name: str) -> Node:
    return (node.properties or {}).get(name) or node.values or _ANY


def _value(node: Node, old: Any, new: Any) -> Any:
    if isinstance(new, dict):
        return strategic_merge(node, old if isinstance(old, dict) else {}, new)
    if isinstance(new, list) and node.merge_key is not None:
        before = old if isinstance(old, list) else []
        # A list of plain values, such as finalizers, is merged as a set.
        if not node.merge_key:
            return before + [item for item in new if item not in before]
        return _items(node.items or _ANY, node.merge_key, before, new)
    return new


def _items(node: Node, key: str, old: list[Json], new: list[Json]) -> list[Json]:
    """Items of the same key merged, others appended; `$patch` says what to delete or that all is replaced."""
    replaced = any(item.get(_PATCH) == "replace" for item in new)
    merged = [] if replaced else list(old)
    for element in new:
        directive = element.get(_PATCH, "merge")
        if directive == "replace":
            # An element that holds nothing but the directive only says that the list is replaced.
            if rest := {name: value for name, value in element.items() if name != _PATCH}:
                merged.append(rest)
            continue
        if key not in element:
            text = f"map: {go_text(element)} does not contain declared merge key: {key}"
            raise errors.Refusal(500, "", text)
        place = next((at for at, item in enumerate(merged) if item.get(key) == element[key]), None)
        if directive == "delete":
            merged = [item for item in merged if item.get(key) != element[key]]
        elif place is None:
            merged.append(strategic_merge(node, {}, element))
        else:
            merged[place] = strategic_merge(node, merged[place], element)
    return merged


def _ordered(items: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """The patch's items in its order; those that it does not name stay before what they were before."""

    def name_of(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    order_keys, was = [name_of(item) for item in order], [name_of(item) for item in before]
    known = sorted((e for e in items if name_of(e) in order_keys), key=lambda e: order_keys.index(name_of(e)))
    own = [item for item in items if name_of(item) not in order_keys]
    result: list[Any] = []
    for element in known:
        # As kubectl's own merge has it: an apply that names two containers
        # keeps an injected third one where it was.
        while own and _is_before(name_of(own[0]), name_of(element), was):
            result.append(own.pop(0))
        result.append(element)
    return result + own


def _is_before(first: Any, second: Any, order: list[Any]) -> bool:
    return first in order and second in order and order.index(first) < order.index(second)
