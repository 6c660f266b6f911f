"""Objects in the bodies of requests: JSON, YAML or protobuf, refused in a real server's words."""

from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.content import TOO_DEEP, BadContent, decode_json, is_too_deep
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.managed.yaml import BadYaml, yaml_object
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.parameters import YAML, content_type
from steelyard_local_kubernetes.apiserver.protobuf.body import PROTOBUF, Envelope, decode_envelope, envelope
from steelyard_local_kubernetes.apiserver.strict import has_key_twice, strict_faults

_SHOWN = 30  # bytes of a body that cannot be read
# The type into which Go reads the first two fields of every body.
_HEAD = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_WORDS = {bool: "bool", str: "string", int: "number", float: "number", list: "array"}


def read_object(request: Request, kind: ResourceType, options: Options | None = None) -> Json:
    """The object in the body of a create or a replace; what strict decoding finds in it is kept in the options."""
    sent = content_type(request)
    strict = options is not None and options.validation != "Ignore"
    if sent in ("application/json", ""):
        content = _json_object(request.body, kind)
        if options is not None and strict and has_key_twice(request.body, content):
            options.faults += strict_faults(kind.node(), request.body, free=kind.custom)
        return content
    if sent == YAML:
        twice: list[str] = []
        content = _yaml_object(request.body, kind, twice if strict else None)
        if options is not None and twice:
            options.faults.append("\n  ".join(["yaml: unmarshal errors:", *twice]))
        return content
    # Messages of custom kinds are published nowhere.
    if sent == PROTOBUF and not kind.custom:
        return _protobuf_object(request.body, kind)
    accepted = ["application/json", YAML] + [PROTOBUF] * (not kind.custom)
    text = f"accepted media types include: {', '.join(accepted)}"
    raise errors.bad_media_type(f"the body of the request was in an unknown format - {text}")


def _json_object(body: bytes, kind: ResourceType) -> Json:
    try:
        content = decode_json(body)
    except BadContent as error:
        raise _headless(kind, str(error), body) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _headless(kind, _unfit(content, f"value of type {_HEAD}"), body)
    for name in ("apiVersion", "kind"):
        if not isinstance(content.get(name, ""), str | None):
            raise _headless(kind, _unfit(content[name], f"struct field .{name} of type string"), body)
    return content


def _unfit(value: Any, place: str) -> str:
    return f"json: cannot unmarshal {_WORDS.get(type(value), 'object')} into Go {place}"


def _headless(kind: ResourceType, fault: str, body: bytes) -> errors.Refusal:
    return _type_refusal(kind, f"couldn't get version/kind; json parse error: {fault}", body)


def _type_refusal(kind: ResourceType, fault: str, body: bytes) -> errors.Refusal:
    text = f"the object provided is unrecognized (must be of type {kind.kind}): {fault} ({summary(body)})"
    return errors.bad_request(text)


def _yaml_object(body: bytes, kind: ResourceType, twice: list[str] | None) -> Json:
    try:
        content = yaml_object(body, twice)
        if is_too_deep(content):
            raise BadContent(TOO_DEEP)
    except (BadYaml, BadContent) as error:
        raise _type_refusal(kind, str(error), body) from error
    return content


def _protobuf_object(body: bytes, kind: ResourceType) -> Json:
    try:
        content = envelope(body)
    except BadContent as error:
        raise _type_refusal(kind, str(error), body) from error
    # Without a type it is what the path says.
    content = Envelope(content.api_version or kind.api_version, content.kind or kind.kind, content.raw)
    try:
        return decode_envelope(content)
    except BadContent as error:
        version = content.api_version.rpartition("/")[2]
        text = f'{content.kind} in version "{version}" cannot be handled as a {kind.kind}: {error}'
        raise errors.bad_request(text) from error


def summary(body: bytes) -> str:
    """The beginning of a body that cannot be read, as text or numbers."""
    if not body:
        return "<empty>"
    beginning = body[:_SHOWN]
    text = beginning.decode(errors="replace") if body.startswith(b"{") else beginning.hex()
    return text if len(body) <= _SHOWN else f"{text} ..."
