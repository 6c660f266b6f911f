"""Unchanged parts of an update: a schema that became stricter since does not stop the rest from being
written.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from steelyard.local.apiserver.expressions.values import item_key
from steelyard_common.types import Json, mapping

_NONE = object()
_SORTED = orjson.OPT_SORT_KEYS


def is_unchanged(schema: Json, new: Any, old: Any, path: Sequence[str | int]) -> bool:
    """Return whether the value at `path`, or something that contains it, is unchanged. Items are matched by
    their keys.
    """
    if old is _NONE:
        return False
    # To Python true and 1 are the same.
    if orjson.dumps(new, option=_SORTED) == orjson.dumps(old, option=_SORTED):
        return True
    if not path:
        return False
    step, *rest = path
    if isinstance(new, dict) and isinstance(old, dict) and isinstance(step, str):
        below = mapping(schema, "properties").get(step) or schema.get("additionalProperties")
        below = below if isinstance(below, dict) else {}
        return is_unchanged(below, new.get(step), old.get(step, _NONE), rest)
    # An index is a place in the new list; which old item that was, only the list's keys say.
    if isinstance(new, list) and isinstance(old, list) and isinstance(step, int):
        return is_unchanged(mapping(schema, "items"), new[step], _item_before(schema, new[step], old), rest)
    return False


def _item_before(schema: Json, item: Any, old: list[Any]) -> Any:
    if schema.get("x-kubernetes-list-type") != "map":
        # Only a list map says which old item is the same: at another place an item of another list is a new one.
        return _NONE
    key = item_key(schema, item)
    return next((item for item in old if item_key(schema, item) == key), _NONE)
