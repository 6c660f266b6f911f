"""Strategic merge patch: lists are merged by the key that a schema names for each.

What `kubectl apply`, `edit` and `patch` send for built-in kinds, and the Python client for a patch that is an object.
"""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from steelyard_common.types import Json, sequence, value_text

_PATCH, _RETAIN = "$patch", "$retainKeys"
_ORDER, _REMOVE = "$setElementOrder/", "$deleteFromPrimitiveList/"
_PORT_KEYS = frozenset({"containerPort", "port"})
"""Merge keys of lists of ports."""
MOST_ALIKE = 64
"""Most elements of a patch for ports of one number: each is compared with the others."""


class Schema(Protocol):
    """Schema of one place, as far as a merge asks for it."""

    @property
    def merge_key(self) -> str | None:
        """Key of the items of a list that is merged; empty where they are plain values, None where it is replaced."""
        ...

    def below(self, name: str) -> "Schema":
        """Return the schema of a field of an object."""
        ...

    def element(self) -> "Schema":
        """Return the schema of the items of a list."""
        ...


class Unmergeable(Exception):
    """A patch that cannot be merged into any object."""


class UnknownDirective(Unmergeable):
    """`$patch` says what no merge does."""

    def __init__(self, directive: Any, patch: Json) -> None:
        super().__init__(f"$patch: is {value_text(directive)}; allowed are merge, replace and delete")
        self.directive, self.patch = directive, patch


class MissingMergeKey(Unmergeable):
    """An element of a list does not say which item it means."""

    def __init__(self, key: str, element: Json) -> None:
        super().__init__(f"{value_text(element)} has no {key}, which says which item is meant")
        self.key, self.element = key, element


class TooManyAlike(Unmergeable):
    """Too many elements of a patch mean ports of one number."""

    def __init__(self, key: str, value: Any) -> None:
        super().__init__(f"a patch has at most {MOST_ALIKE} elements of one {key}, and has more of {value}")


def strategic_merge(schema: Schema, obj: Json, patch: Json) -> Json:
    """Return `obj` as the patch wants it; neither is changed.

    Raises Unmergeable, and TypeError for a list in whose place there should be an object.
    """
    sent, patch = patch, dict(patch)
    match patch.pop(_PATCH, "merge"):
        case "replace":
            return patch
        case "delete":
            return {}
        case "merge":
            return _merge(schema, obj, patch)
        case other:
            raise UnknownDirective(other, sent)


def _merge(schema: Schema, obj: Json, patch: Json) -> Json:
    merged = dict(obj)
    # For unions: a Deployment that becomes Recreate must lose the settings of its rolling update.
    if (kept := patch.pop(_RETAIN, None)) is not None:
        names = _identities(kept)
        merged = {key: value for key, value in merged.items() if key in names}
    orders = {key.removeprefix(_ORDER): patch.pop(key) for key in list(patch) if key.startswith(_ORDER)}
    for key in [key for key in patch if key.startswith(_REMOVE)]:
        name, gone = key.removeprefix(_REMOVE), _identities(patch.pop(key))
        merged[name] = [item for item in sequence(merged, name) if _identity(item) not in gone]
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _value(schema.below(name), merged.get(name), value)
    for name in dict.fromkeys([*patch, *orders]):
        merge_key = schema.below(name).merge_key
        if merge_key is not None and isinstance(merged.get(name), list):
            order = orders.get(name) or patch.get(name) or []
            merged[name] = _order(merged[name], order, sequence(obj, name), merge_key)
    return merged


def _value(schema: Schema, old: Any, new: Any) -> Any:
    if isinstance(new, dict):
        return strategic_merge(schema, old if isinstance(old, dict) else {}, new)
    if isinstance(new, list) and schema.merge_key is not None:
        before = old if isinstance(old, list) else []
        # A list of plain values, such as finalizers, is merged as a set.
        if not schema.merge_key:
            known = _identities(before)
            return before + [item for item in new if _identity(item) not in known]
        return _items(schema.element(), schema.merge_key, before, new)
    return new


def _items(schema: Schema, key: str, old: list[Json], new: list[Json]) -> list[Json]:
    """Items of the same key merged, others appended; `$patch` says what to delete or that all is replaced."""
    for element in new:
        if not isinstance(element, dict):
            raise TypeError(f"{value_text(element)} should be an object with the key {key}")
    replaced = any(item.get(_PATCH) == "replace" for item in new)
    merged: list[Json | None] = [] if replaced else list(old)  # None: deleted
    # By their keys: lists have thousands of items, and to look for each among all takes minutes.
    places, alike = _group_places(merged, key), _group_places(new, key)
    for element in new:
        directive = element.get(_PATCH, "merge")
        if directive == "replace":
            # An element that holds nothing but the directive only says that the list is replaced.
            if rest := {name: value for name, value in element.items() if name != _PATCH}:
                merged.append(rest)
            continue
        if key not in element:
            raise MissingMergeKey(key, element)
        identity = _identity(element[key])
        here = places.setdefault(identity, [])
        place = _place(merged, here, element, key, len(alike[identity]))
        if directive == "delete":
            # Without its protocol every port of a number is meant.
            for at in list(here) if "protocol" not in element else [] if place is None else [place]:
                merged[at] = None
                here.remove(at)
        elif place is None:
            here.append(len(merged))
            merged.append(strategic_merge(schema, {}, element))
        else:
            merged[place] = strategic_merge(schema, merged[place] or {}, element)
    return [item for item in merged if item is not None]


def _place(items: Sequence[Any], here: Sequence[int], element: Json, key: str, alike: int) -> int | None:
    """Return where the item is that an element of a patch means.

    `here` are the places of items that have its key, `alike` is the number of elements that have it. Ports of one
    number differ by their protocol where the list or the patch has several of the number. Where both have one, it is
    that port, and its protocol changes, as on a real server.
    """
    if not here or key not in _PORT_KEYS:
        return here[0] if here else None
    if alike > MOST_ALIKE:
        raise TooManyAlike(key, element[key])
    if len(here) == 1 and ("protocol" not in element or alike == 1):
        return here[0]
    protocol = element.get("protocol") or "TCP"
    return next((at for at in here if (items[at].get("protocol") or "TCP") == protocol), None)


def _group_places(items: list[Any], key: str) -> dict[str | bytes, list[int]]:
    """Return the places of items by their keys."""
    places: dict[str | bytes, list[int]] = {}
    for at, item in enumerate(items):
        if isinstance(item, dict):
            places.setdefault(_identity(item.get(key)), []).append(at)
    return places


def _identity(value: Any) -> str | bytes:
    """Return what equal values, and only those, have in common: a text that stays as it is, or JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True).encode()


def _identities(values: Any) -> set[str | bytes]:
    return {_identity(value) for value in values}


def _order(items: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """The patch's items in its order; those that it does not name stay before what they were before."""

    def read_name(item: Any) -> str | bytes:
        return _identity(item.get(key) if key and isinstance(item, dict) else item)

    place, was = _first_places(map(read_name, order)), _first_places(map(read_name, before))
    known = sorted(
        (item for item in items if read_name(item) in place), key=lambda item: place[read_name(item)]
    )
    own = deque(item for item in items if read_name(item) not in place)
    result: list[Any] = []
    for element in known:
        # As kubectl's own merge has it: an apply that names two containers
        # keeps an injected third one where it was.
        after = was.get(read_name(element), -1)
        while own and was.get(read_name(own[0]), after) < after:
            result.append(own.popleft())
        result.append(element)
    return [*result, *own]


def _first_places(names: Iterable[str | bytes]) -> dict[str | bytes, int]:
    places: dict[str | bytes, int] = {}
    for at, name in enumerate(names):
        places.setdefault(name, at)
    return places
