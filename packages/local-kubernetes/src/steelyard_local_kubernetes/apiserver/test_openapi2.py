"""The OpenAPI document of version 2, in both of its forms."""

from steelyard_local_kubernetes.apiserver.openapi2 import swagger
from steelyard_local_kubernetes.apiserver.openapi2_protobuf import encode_document


def test_protobuf() -> None:
    document = {"swagger": "2.0", "definitions": {"x": {"type": "object", "x-y": [1], "maximum": 1.5}}}
    schema = b"\xb2\x01\x08\n\x06object"
    extension = b"\xfa\x01\r\n\x03x-y\x12\x06\x12\x04[1]\n"
    limit = b"9\x00\x00\x00\x00\x00\x00\xf8?"
    value = schema + extension + limit
    named = b"\n\x01x\x12" + bytes([len(value)]) + value
    definitions = b"\n" + bytes([len(named)]) + named
    assert encode_document(document) == b"\n\x032.0J" + bytes([len(definitions)]) + definitions


def test_schemas_are_lowered() -> None:
    reference = {"allOf": [{"$ref": "#/components/schemas/y"}], "default": {}, "description": "d"}
    choice = {"oneOf": [{"type": "string"}, {"type": "integer"}], "format": "int-or-string"}
    schema = {"type": "object", "properties": {"default": reference, "port": choice}}
    document = {"components": {"schemas": {"x": schema}}, "paths": {}}
    lowered = swagger([document])["definitions"]["x"]["properties"]
    assert lowered["default"] == {"$ref": "#/definitions/y", "description": "d"}
    assert lowered["port"] == {"type": "string", "format": "int-or-string"}
