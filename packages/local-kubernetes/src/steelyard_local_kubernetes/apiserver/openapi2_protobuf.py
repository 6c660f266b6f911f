"""The OpenAPI document of version 2 as protobuf, the only form in which clients in Go ask for it.

Messages and numbers are those of gnostic's `OpenAPIv2.proto`.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from steelyard_common.types import Json

MEDIA = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
ANSWERED = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"  # the same, as real servers write it
Field = Callable[[Any], bytes]  # a value as its field


def encode_document(document: Json) -> bytes:
    return _message(document, _DOCUMENT)


def _message(value: Json, fields: Mapping[str, Field], extensions: int = 0) -> bytes:
    """Encode the fields of a message; its `x-` fields, where it takes some, as YAML."""
    content = bytearray()
    for name, below in value.items():
        if name in fields:
            content += fields[name](below)
        elif extensions and name.startswith("x-"):
            content += _block(extensions, _encode_pair(name, _any(below)))
    return bytes(content)


# ---- the wire format


def _varint(value: int) -> bytes:
    content = bytearray()
    while value > 127:
        content.append(value & 127 | 128)
        value >>= 7
    content.append(value)
    return bytes(content)


def _block(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _encode_pair(name: str, value: bytes) -> bytes:
    return _block(1, name.encode()) + _block(2, value)


def _any(value: object) -> bytes:
    return _block(2, orjson.dumps(value) + b"\n")  # JSON is YAML


# ---- fields


def _text(number: int) -> Field:
    return lambda value: _block(number, str(value).encode())


def _texts(number: int) -> Field:
    return lambda values: b"".join(_block(number, value.encode()) for value in values)


def _whole(number: int) -> Field:
    return lambda value: _varint(number << 3) + _varint(int(value) & 0xFFFFFFFFFFFFFFFF)


def _double(number: int) -> Field:
    return lambda value: _varint(number << 3 | 1) + struct.pack("<d", value)


def _single(number: int, encode: Callable[[Any], bytes]) -> Field:
    return lambda value: _block(number, encode(value))


def _many(number: int, encode: Callable[[Any], bytes]) -> Field:
    return lambda values: b"".join(_block(number, encode(value)) for value in values)


# ---- messages


def _schema(value: Json) -> bytes:
    return _message(value, _SCHEMA, 31)


def _in_schema(value: Json) -> bytes:
    return _block(1, _schema(value))


def _schemas(values: Json) -> bytes:
    return b"".join(_block(1, _encode_pair(name, _schema(value))) for name, value in values.items())


def _type(value: Any) -> bytes:
    return _texts(1)(value if isinstance(value, list) else [value])


def _paths(values: Json) -> bytes:
    return b"".join(
        _block(2, _encode_pair(path, _message(value, _PATH, 10))) for path, value in values.items()
    )


def _operation(value: Json) -> bytes:
    return _message(value, _OPERATION, 13)


def _parameter(value: Json) -> bytes:
    if "$ref" in value:
        return _block(2, _message(value, {"$ref": _text(1)}))
    if value["in"] == "body":
        return _block(1, _block(1, _message(value, _BODY)))
    # Those in a query and in a path have messages of their own, alike but for the number of `type`.
    kind, number = (3, 6) if value["in"] == "query" else (4, 5)
    fields = {"required": _whole(1), "in": _text(2), "description": _text(3), "name": _text(4)}
    return _block(1, _block(2, _block(kind, _message(value, {**fields, "type": _text(number)}))))


def _responses(values: Json) -> bytes:
    fields = {"description": _text(1), "schema": _single(2, _in_schema)}
    return b"".join(
        _block(1, _encode_pair(code, _block(1, _message(value, fields)))) for code, value in values.items()
    )


def _security(values: Json) -> bytes:
    names = (_block(1, _encode_pair(name, _texts(1)(scopes))) for name, scopes in values.items())
    return b"".join(names)


def _definitions_of_security(values: Json) -> bytes:
    fields = {"type": _text(1), "name": _text(2), "in": _text(3), "description": _text(4)}
    return b"".join(
        _block(1, _encode_pair(name, _block(2, _message(value, fields)))) for name, value in values.items()
    )


_SCHEMA: dict[str, Field] = {
    "$ref": _text(1),
    "format": _text(2),
    "title": _text(3),
    "description": _text(4),
    "default": _single(5, _any),
    "multipleOf": _double(6),
    "maximum": _double(7),
    "exclusiveMaximum": _whole(8),
    "minimum": _double(9),
    "exclusiveMinimum": _whole(10),
    "maxLength": _whole(11),
    "minLength": _whole(12),
    "pattern": _text(13),
    "maxItems": _whole(14),
    "minItems": _whole(15),
    "uniqueItems": _whole(16),
    "maxProperties": _whole(17),
    "minProperties": _whole(18),
    "required": _texts(19),
    "enum": _many(20, _any),
    "additionalProperties": _single(21, _in_schema),
    "type": _single(22, _type),
    "items": _single(23, _in_schema),
    "properties": _single(25, _schemas),
}
_BODY: dict[str, Field] = {
    "description": _text(1),
    "name": _text(2),
    "in": _text(3),
    "required": _whole(4),
    "schema": _single(5, _schema),
}
_OPERATION: dict[str, Field] = {
    "tags": _texts(1),
    "summary": _text(2),
    "description": _text(3),
    "operationId": _text(5),
    "produces": _texts(6),
    "consumes": _texts(7),
    "parameters": _many(8, _parameter),
    "responses": _single(9, _responses),
    "schemes": _texts(10),
}
_PATH: dict[str, Field] = {
    "get": _single(2, _operation),
    "put": _single(3, _operation),
    "post": _single(4, _operation),
    "delete": _single(5, _operation),
    "patch": _single(8, _operation),
    "parameters": _many(9, _parameter),
}
_DOCUMENT: dict[str, Field] = {
    "swagger": _text(1),
    "info": _single(2, lambda value: _message(value, {"title": _text(1), "version": _text(2)})),
    "paths": _single(8, _paths),
    "definitions": _single(9, _schemas),
    "security": _many(12, _security),
    "securityDefinitions": _single(13, _definitions_of_security),
}
