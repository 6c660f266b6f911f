"""A body in protobuf: Kubernetes' mark, an envelope with the object's type, and the object. `parameters.py` asks."""

from typing import NamedTuple

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.content import BadContent, check_shape
from steelyard_local_kubernetes.apiserver.protobuf.decoding import decode_message
from steelyard_local_kubernetes.apiserver.protobuf.descriptors import UNKNOWN, kind_message, message_by_name

PROTOBUF = "application/vnd.kubernetes.protobuf"
_MARK = b"k8s\0"


class Envelope(NamedTuple):
    """The type that a body names, which may be empty, and the object's own bytes."""

    api_version: str
    kind: str
    raw: bytes


def envelope(body: bytes) -> Envelope:
    """Raises BadContent."""
    if not body:
        raise BadContent("empty data")
    if not body.startswith(_MARK):
        text = "provided data does not appear to be a protobuf message, expected prefix"
        raise BadContent(f"{text} [{' '.join(str(byte) for byte in _MARK)}]")
    if body == _MARK:
        raise BadContent("empty body")
    content = decode_message(message_by_name(UNKNOWN), body[len(_MARK) :])
    return Envelope(content.get("apiVersion", ""), content.get("kind", ""), content.get("raw", b""))


def decode_envelope(content: Envelope) -> Json:
    """The object with its type. Raises BadContent."""
    message = kind_message(content.api_version, content.kind)
    if message is None:
        raise BadContent(f'no kind "{content.kind}" is registered for version "{content.api_version}"')
    obj: Json = {"apiVersion": content.api_version, "kind": content.kind}
    value = decode_message(message, content.raw, obj)
    # JSON within protobuf has a depth of its own.
    check_shape(value)
    return obj
