"""JSON patches as Kubernetes' library applies them, which is more lenient than RFC 6902: a member that is not there
counts as null where it is replaced, tested or copied. `patching.py` asks.
"""

import copy
from typing import Any

import orjson

MAX_COPIED = 3 << 20  # bytes: operations that copy double an object in one line each
_ROOT = "root"


class Unfit(ValueError):
    """An operation that does not exist, or that the object has no place for."""


class TooMuch(ValueError):
    """Operations that copy more than an object can hold."""


def apply_operations(obj: Any, operations: list[Any]) -> Any:
    """Return the object after all operations, which change it in place. Raises Unfit and TooMuch."""
    # Within another object, so that the whole is a member like any other.
    root = {_ROOT: obj}
    copied = 0
    for operation in operations:
        if not isinstance(operation, dict):
            raise Unfit("an operation is an object")
        copied += _apply(root, operation)
        if copied > MAX_COPIED:
            text = "Unable to complete the copy, the accumulated size increase of copy is"
            raise TooMuch(f"{text} {copied}, exceeding the limit {MAX_COPIED}")
    return root[_ROOT]


def _apply(root: Any, operation: dict[str, Any]) -> int:
    """Apply one operation; the number of bytes that it has copied."""
    container, key = _place(root, operation.get("path"))
    match operation.get("op"):
        case "add":
            _add(container, key, operation.get("value"))
        case "replace":
            _get(container, key)
            container[_at(container, key)] = operation.get("value")
        case "remove":
            _remove(container, key)
        case "test":
            value = operation.get("value")
            if not _same(_get(container, key), value):
                raise Unfit(f"testing value {operation.get('path')} failed")
        case "move":
            source, name = _place(root, operation.get("from"))
            moved = _get(source, name)
            _remove(source, name)
            # Looked up again: what was removed may have been an item before it.
            container, key = _place(root, operation.get("path"))
            _add(container, key, moved)
        case "copy":
            value = _get(*_place(root, operation.get("from")))
            _add(container, key, copy.deepcopy(value))
            return len(orjson.dumps(value))
        case other:
            raise Unfit(f"unexpected kind: {other}")
    return 0


def _place(root: Any, path: object) -> tuple[Any, str]:
    """The list or object that a pointer ends in, and the key in it."""
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise Unfit("an operation needs paths, which begin with a slash")
    keys = [_ROOT, *(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])]
    container = root
    for key in keys[:-1]:
        container = _get(container, key)
        if not isinstance(container, dict | list):
            raise Unfit(f"doc is missing path: {path}")
    return container, keys[-1]


def _get(container: Any, key: str) -> Any:
    return container.get(key) if isinstance(container, dict) else container[_index(container, key, -1)]


def _at(container: Any, key: str) -> Any:
    return key if isinstance(container, dict) else _index(container, key, -1)


def _add(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(container, key, 0), value)


def _remove(container: Any, key: str) -> None:
    if isinstance(container, dict) and key not in container:
        raise Unfit(f"Unable to remove nonexistent key: {key}")
    del container[_at(container, key)]


def _index(items: list[Any], key: str, last: int) -> int:
    """A position in a list, counted from its end where it is negative; `last` is that of the last one, at its end."""
    digits = key.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 9:
        raise Unfit(f"no position in a list: {key}")
    size, position = len(items) + last + 1, int(key)
    if not -size <= position < size:
        raise Unfit(f"Unable to access invalid index: {position}")
    return position if position >= 0 else position + size


def _same(first: Any, second: Any) -> bool:
    # To Python true is the number 1.
    return bool(first == second) and orjson.dumps(first, option=_SORTED) == orjson.dumps(
        second, option=_SORTED
    )


_SORTED = orjson.OPT_SORT_KEYS
