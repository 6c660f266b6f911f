"""Objects as clients send them, brought to the fields of their kind, or refused in a real server's words.

Every create and every update calls it before the rules of the kind.
"""

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.decoding import Undecodable, decode_changes, decode_fields
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.kinds import ResourceType, find_field
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.published import is_published
from steelyard_local_kubernetes.apiserver.schema import drop_unknown

_SHOWN = 30  # characters of a body that names no kind


def decode(kind: ResourceType, obj: Json, options: Options, old: Json | None = None) -> None:
    """Bring what a client sent to the kind's fields, in place: type, fields, metadata.

    Parts that are equal in an `old` form of it, which was decoded once, are left alone.
    """
    for name, expected in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        # A built-in kind is known by the path; Kubernetes wants custom objects to name theirs.
        if obj.get(name) in (None, ""):
            if kind.custom:
                raise _missing_name_refusal(kind, name, obj)
            obj[name] = expected
    if obj["kind"] != kind.kind or obj["apiVersion"] != kind.api_version:
        raise _wrong_kind(kind, obj)
    unknown: list[str] = []
    try:
        if kind.custom:
            unknown = sorted(drop_unknown(kind.node(), obj))
            _check_metadata(kind, obj)
        else:
            decode_changes(kind.node(), obj, old or {}, unknown)
    except Undecodable as error:
        raise _undecodable(kind, str(error)) from error
    # What the body says in its order comes first, and names unknown fields in it.
    faults = list(dict.fromkeys([*options.faults, *(f'unknown field "{name}"' for name in unknown)]))
    if faults and options.validation == "Strict":
        raise _undecodable(kind, f"strict decoding error: {', '.join(faults)}")
    if options.validation != "Ignore":
        options.warnings += faults
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    # Go leaves out empty maps and lists; selfLink is of versions before 1.20.
    for name in ("labels", "annotations", "finalizers", "ownerReferences", "selfLink"):
        if name in obj["metadata"] and (not obj["metadata"][name] or name == "selfLink"):
            del obj["metadata"][name]


def _check_metadata(kind: ResourceType, obj: Json) -> None:
    """Custom objects' own schema says what is wrong in the rest."""
    node = (kind.node().properties or {}).get("metadata")
    if node is not None and obj.get("metadata") is not None:
        decode_fields(node, obj["metadata"], [], "metadata")


def _missing_name_refusal(kind: ResourceType, name: str, obj: Json) -> Refusal:
    sent = orjson.dumps(obj).decode()
    beginning = sent if len(sent) <= _SHOWN else f"{sent[:_SHOWN]} ..."
    text = f"the object provided is unrecognized (must be of type {kind.kind})"
    return errors.bad_request(
        f"{text}: Object '{name[0].upper()}{name[1:]}' is missing in '{sent}' ({beginning})"
    )


def _wrong_kind(kind: ResourceType, obj: Json) -> Refusal:
    if kind.custom and obj["kind"] != kind.kind:
        cause = errors.invalid("kind", obj["kind"], f"must be {kind.kind}")
        return errors.is_invalid(
            kind.group, str(obj["kind"]), find_field(obj, "metadata", "name") or "", [cause]
        )
    version, name = str(obj["apiVersion"]), str(obj["kind"])
    group, _, short = version.rpartition("/")
    served = name == kind.kind and group == kind.group and is_published(group, short, name)
    if kind.custom or served:
        text = f"the API version in the data ({obj['apiVersion']}) does not match the expected API version "
        return errors.bad_request(f"{text}({kind.api_version})")
    text = f'no kind "{name}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:110"'
    if is_published(group, short, name):
        internal = kind.group.partition(".")[0] or "core"
        text = f"converting ({short}.{name}) to ({internal}.{kind.kind}): unknown conversion"
    return errors.bad_request(f'{name} in version "{short}" cannot be handled as a {kind.kind}: {text}')


def _undecodable(kind: ResourceType, detail: str) -> Refusal:
    article = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return errors.bad_request(f"{article}: {detail}")
