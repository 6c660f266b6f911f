"""The wire format of protobuf: tags, varints and blocks. Errors have the texts of Kubernetes' own decoder."""

from collections.abc import Iterator

from steelyard_local_kubernetes.apiserver.content import BadContent

VARINT, FIXED64, BLOCK, GROUP, END_GROUP, FIXED32 = range(6)
_SIZES = {FIXED64: 8, FIXED32: 4}
Value = int | bytes


def fields(data: bytes, message: str) -> Iterator[tuple[int, int, Value]]:
    """Number, wire type and value of each field; groups, which Kubernetes does not use, are skipped.

    Raises BadContent.
    """
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3 & 0xFFFFFFFF, tag & 7
        if kind == END_GROUP:
            raise BadContent(f"proto: {message}: wiretype end group for non-group")
        if not 0 < number < 1 << 31:
            signed = number - (1 << 32) if number else 0
            raise BadContent(f"proto: {message}: illegal tag {signed} (wire type {tag})")
        if kind == GROUP:
            at = _after_group(data, at)
            continue
        value, at = _value(data, at, kind)
        yield number, kind, value


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of 64 bits, and where it ends."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            raise BadContent("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise BadContent("proto: integer overflow")


def _value(data: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == VARINT:
        return varint(data, at)
    if kind == BLOCK:
        size, at = varint(data, at)
        if size >= 1 << 63:
            raise BadContent("proto: negative length found during unmarshaling")
    elif kind in _SIZES:
        size = _SIZES[kind]
    else:
        raise BadContent(f"proto: illegal wireType {kind}")
    # A block may say that it has gigabytes: it has what was sent, or nothing is read.
    if size > len(data) - at:
        raise BadContent("unexpected EOF")
    return data[at : at + size], at + size


def _after_group(data: bytes, at: int) -> int:
    depth = 1
    while depth:
        tag, at = varint(data, at)
        kind = tag & 7
        if kind in (GROUP, END_GROUP):
            depth += 1 if kind == GROUP else -1
        else:
            _, at = _value(data, at, kind)
    return at
