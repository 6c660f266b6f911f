"""Messages of protobuf as JSON: the same values that Go makes of the same object."""

import base64
import struct
from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.content import MAX_DEPTH, MAX_PARTS, TOO_DEEP, TOO_MANY, BadContent
from steelyard_local_kubernetes.apiserver.protobuf.descriptors import (
    DROP_ZERO,
    INLINE,
    MAP,
    POINTER,
    REPEATED,
    Field,
    Message,
)
from steelyard_local_kubernetes.apiserver.protobuf.special import SPECIAL
from steelyard_local_kubernetes.apiserver.protobuf.wire import BLOCK, FIXED64, VARINT, Value, fields, varint

_WIRE = {"s": BLOCK, "y": BLOCK, "r": BLOCK, "i": VARINT, "l": VARINT, "b": VARINT, "d": FIXED64}


def decode_message(message: Message, data: bytes, into: Json | None = None, depth: int = 0) -> Any:
    """The value of a message, over `into` where a part of it came before. Raises BadContent."""
    if depth > MAX_DEPTH:
        raise BadContent(TOO_DEEP)
    value: Json = {} if into is None else into
    for number, wire, content in fields(data, message.short):
        field = message.fields.get(number)
        if field is None:
            continue  # of a newer version: Kubernetes drops it too
        if (
            field.flags & REPEATED
            and isinstance(field.type, str)
            and wire == BLOCK
            and _WIRE[field.type] == VARINT
        ):
            assert isinstance(content, bytes)
            value.setdefault(field.json, []).extend(_unpack(field.type, content))
            continue
        expected = BLOCK if isinstance(field.type, Message) or field.flags & MAP else _WIRE[field.type]
        if wire != expected:
            raise BadContent(f"proto: wrong wireType = {wire} for field {field.go}")
        _set(value, field, content, depth)
    convert = SPECIAL.get(message.name)
    return convert(value) if convert else value


def _set(value: Json, field: Field, content: Value, depth: int) -> None:
    if field.flags & MAP:
        assert isinstance(content, bytes)
        name, item = _entry(field, content, depth)
        value.setdefault(field.json, {})[name] = item
    elif field.flags & REPEATED:
        items = value.setdefault(field.json, [])
        items.append(_decode_value(field.type, content, depth))
        # Two bytes are an empty message.
        if len(items) > MAX_PARTS and isinstance(field.type, Message):
            raise BadContent(TOO_MANY)
    elif isinstance(field.type, Message):
        assert isinstance(content, bytes)
        if field.flags & INLINE:
            decode_message(field.type, content, value, depth + 1)
            return
        before = value.get(field.json)
        # Parts of a message may come one after the other; those of a special one are one value.
        into = before if isinstance(before, dict) and field.type.name not in SPECIAL else None
        value[field.json] = decode_message(field.type, content, into, depth + 1)
    else:
        item = _decode_value(field.type, content, depth)
        # Go sends zeros of what was never set, and leaves them out of JSON.
        if not item and field.flags & DROP_ZERO and not field.flags & POINTER:
            value.pop(field.json, None)
        else:
            value[field.json] = item


def _decode_value(kind: str | Message, content: Value, depth: int) -> Any:
    if isinstance(content, int):
        return _number(str(kind), content)
    if isinstance(kind, Message):
        return decode_message(kind, content, None, depth + 1)
    match kind:
        case "s":
            # As Go writes in JSON what is no text; checks of names and values refuse the sign.
            return content.decode(errors="replace")
        case "y":
            return base64.b64encode(content).decode()
        case "d":
            return struct.unpack("<d", content)[0]
    return content


def _number(kind: str, value: int) -> int | bool:
    if kind == "b":
        return value != 0
    bits = 32 if kind == "i" else 64
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _unpack(kind: str, content: bytes) -> list[int | bool]:
    values, at = [], 0
    while at < len(content):
        value, at = varint(content, at)
        values.append(_number(kind, value))
    return values


def _entry(field: Field, content: bytes, depth: int) -> tuple[str, Any]:
    """One pair of a map; a part that is missing is empty."""
    name, item = "", _decode_value(field.type, b"", depth)
    for number, wire, part in fields(content, field.go):
        if number in (1, 2) and wire != BLOCK:
            raise BadContent(f"proto: wrong wireType = {wire} for field {field.go}")
        if number == 1:
            name = str(_decode_value("s", part, depth))
        elif number == 2:
            item = _decode_value(field.type, part, depth)
    return name, item
