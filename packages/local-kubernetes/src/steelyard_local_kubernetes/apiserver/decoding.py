"""Bodies of built-in kinds as a real server's decoder reads them: values that do not fit are refused in its words,
unknown fields are named and dropped, and empty fields are left out or written as it does.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.amounts import amount
from steelyard_local_kubernetes.apiserver.gotypes import zero
from steelyard_local_kubernetes.apiserver.schema import Node
from steelyard_local_kubernetes.apiserver.times import normalize_time

_LARGEST = 2**63 - 1
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PLAIN: dict[str, type] = {"string": str, "boolean": bool}
_GO = {"boolean": "bool", "number": "float64", "string": "string"}


class Undecodable(Exception):
    """A value of another type than its field. The path is put together on the way out."""

    def __init__(self, text: str, wanted: str = "") -> None:
        super().__init__(text)
        self._text, self._wanted = text, wanted
        self._struct, self._path = "", ""

    def inside(self, struct: str, field: str) -> None:
        """Called for each structure around the value, from the innermost outwards."""
        self._struct = self._struct or struct
        self._path = f"{field}.{self._path}" if self._path else field

    def forget(self) -> None:
        """Called where Go decodes a part for itself: where in it the value is remains unsaid."""
        self._struct = self._path = ""

    def __str__(self) -> str:
        if not self._wanted:
            return self._text
        place = f"struct field {self._struct}.{self._path}" if self._path else "value"
        return f"json: cannot unmarshal {self._text} into Go {place} of type {self._wanted}"


def decode_fields(node: Node, value: Any, unknown: list[str], path: str = "") -> Any:
    """The value as its structure holds it, changed in place; unknown fields are dropped and named.

    Raises Undecodable.
    """
    kind = node.type
    if not kind:
        return value if node.part is None else _read_part(node, value)
    if kind in _PLAIN:
        if type(value) is not _PLAIN[kind]:
            raise _unfit(value, node.go or _GO[kind])
        if node.base64:
            return _read_base64(str(value))
        return value
    return _READERS[kind](node, value, unknown, path)


def decode_changes(node: Node, value: Json, old: Json, unknown: list[str]) -> None:
    """Decode an object, given its old form, which was decoded before: fields that are equal there are left alone.

    Raises Undecodable.
    """
    _read_struct(node, value, unknown, "", old)


def _read_object(node: Node, value: Any, unknown: list[str], path: str) -> Any:
    if type(value) is not dict:
        raise _unfit(value, node.go or "map[string]interface {}")
    if node.properties is not None:
        _read_struct(node, value, unknown, path)
    elif node.values is not None:
        values = node.values
        for name, member in value.items():
            where = f"{path}.{name}"
            value[name] = (
                _empty(values, where) if member is None else decode_fields(values, member, unknown, where)
            )
    return value


def _read_struct(
    node: Node, value: Json, unknown: list[str], path: str, old: Mapping[str, Any] = _NOTHING
) -> None:
    properties, left_out = node.properties or {}, node.left_out - node.kept
    for name, member in list(value.items()):
        if name in old and member is not None and _is_same(member, old[name]):
            continue
        below = properties.get(name)
        if below is None:
            if not node.preserve:
                unknown.append(f"{path}.{name}" if path else name)
                del value[name]
            continue
        if member is None:
            del value[name]
            continue
        try:
            held = decode_fields(below, member, unknown, f"{path}.{name}" if path else name)
        except Undecodable as error:
            error.inside(node.struct, name)
            raise
        if (held or name not in left_out) and name not in node.gated:
            value[name] = held
        else:
            del value[name]
    for name, empty in node.written.items():
        if name not in value:
            value[name] = _empty(properties[name], "") if empty == {} else empty
        elif value[name] == [] and name not in node.kept:
            # An empty list that is always written comes back from a real server's storage as null.
            value[name] = None


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two values are one as JSON: to Python 1, 1.0 and true are equal."""
    try:
        return bool(value == other) and orjson.dumps(value) == orjson.dumps(other)
    except TypeError:  # a number that is too large for JSON here
        return False


def _empty(node: Node, path: str) -> Any:
    """A new empty value with all that Go writes in it."""
    value = zero(node)
    # What may be any JSON has a name in Go, too, and is null.
    if node.struct and isinstance(value, dict):
        _read_struct(node, value, [], path)
    return value


def _read_list(node: Node, value: Any, unknown: list[str], path: str) -> Any:
    if type(value) is not list:
        raise _unfit(value, node.go or "[]interface {}")
    items = node.items
    if items is not None:
        for index, item in enumerate(value):
            where = f"{path}[{index}]"
            value[index] = (
                _empty(items, where) if item is None else decode_fields(items, item, unknown, where)
            )
    return value


def _read_integer(node: Node, value: Any, unknown: list[str], path: str) -> Any:
    limit = 1 << (node.bits - 1)
    if type(value) is int and -limit <= value < limit:
        return value
    wanted = node.go or f"int{node.bits}"
    # Only of a number that a type of numbers cannot hold Go says which one it is.
    raise Undecodable(f"number {value}", wanted) if type(value) in (int, float) else _unfit(value, wanted)


def _read_number(node: Node, value: Any, unknown: list[str], path: str) -> Any:
    if type(value) not in (int, float):
        raise _unfit(value, node.go or _GO["number"])
    return value


def _read_either(node: Node, value: Any, unknown: list[str], path: str) -> Any:
    return value if type(value) is str else _read_integer(_INT32, value, unknown, path)


def _canonical(text: str | float) -> str:
    number = amount(text)
    # Larger ones count as the largest, and stay as they were sent.
    if abs(number.number) > _LARGEST:
        return str(text)
    return str(number)


def _read_quantity(node: Node, value: Any, unknown: list[str], path: str) -> Any:
    text = value.strip() if type(value) is str else value
    try:
        # Written as Go writes it: 1000m is 1, and 1024Mi is 1Gi.
        return _canonical(text if type(text) in (str, int, float) else "?")
    except ValueError as error:
        raise Undecodable(str(error)) from error


def _read_base64(text: str) -> str:
    """Return what Go writes again: it skips line breaks."""
    try:
        return base64.b64encode(
            base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
        ).decode()
    except (binascii.Error, ValueError):
        raise Undecodable(f"illegal base64 data at input byte {_base64_fault(text)}") from None


def _base64_fault(text: str) -> int:
    """The byte at which Go gives up: the first strange one, a missing one, or the first after the padding."""
    data = text.encode()
    group = index = 0
    while index < len(data):
        if data[index] in _ALPHABET:
            group = (group + 1) % 4
        elif data[index] not in b"\r\n":
            break
        index += 1
    if index == len(data):
        return index - group
    if data[index] != ord("=") or group < 2:
        return index
    rest = data[index + 1 :].lstrip(b"\r\n")
    if group == 2 and rest[:1] != b"=":
        return len(data) - len(rest) - 1 if rest else len(data)
    return len(data) - len(rest[group == 2 :].lstrip(b"\r\n"))


def _read_time(node: Node, value: Any, unknown: list[str], path: str) -> Any:
    if type(value) is not str:
        raise _unfit(value, "string")
    try:
        return normalize_time(value, micro=node.go == "v1.MicroTime")
    except ValueError as error:
        raise Undecodable(str(error)) from error


def _read_part(node: Node, value: Any) -> Any:
    """A schema, or what may stand in its place: Go decodes it for itself, and says nothing of unknown fields in it."""
    schema, word = node.part, node.go.rpartition("PropsOr")[2]
    assert schema is not None
    try:
        if type(value) is dict:
            return decode_fields(schema, value, [])
        if type(value) is list and word == "Array":
            return [decode_fields(schema, item, []) for item in value]
        if type(value) is list and word == "StringArray":
            return [decode_fields(_STRING, item, []) for item in value]
    except Undecodable as error:
        error.forget()
        raise
    if word != "Bool":
        return None
    if type(value) is not bool:
        raise Undecodable("boolean or JSON schema expected")
    return value


_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_INT32, _STRING = Node(type="integer", bits=32), Node(type="string")
_READERS: dict[str, Callable[[Node, Any, list[str], str], Any]] = {
    "object": _read_object,
    "array": _read_list,
    "integer": _read_integer,
    "number": _read_number,
    "int-or-string": _read_either,
    "quantity": _read_quantity,
    "time": _read_time,
}


def _unfit(value: object, wanted: str) -> Undecodable:
    return Undecodable(_WORDS.get(type(value), "null"), wanted)


_WORDS = {bool: "bool", str: "string", int: "number", float: "number", list: "array", dict: "object"}
