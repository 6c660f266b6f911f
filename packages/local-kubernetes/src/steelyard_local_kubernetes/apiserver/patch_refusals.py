"""Refusals of patched objects, which a real server words by the kind of the patch. `rest.py` asks."""

import re
from typing import Any

import orjson

from steelyard_common.types import Json, mapping
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.errors import Refusal

_UNFIT = re.compile(r"json: cannot unmarshal (\w+)[^ ]* into Go (?:struct field \S+|value) of type (\S+)")
_KINDS = {"array": "slice", "object": "map", "number": "int64"}
# The order of Go's own structure, in which a real server writes metadata that a patch leaves alone.
_METADATA = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
)  # fmt: skip


def is_undecodable(refusal: Refusal) -> bool:
    """Return whether a patched object was refused since it cannot be decoded."""
    return refusal.code == 400 and "cannot be handled as" in refusal.message


def patch_refusal(refusal: Refusal, obj: Json | None = None, *, strategic: Json | None = None) -> Refusal:
    """Turn a refusal of the patched object into one of the patch: invalid, not undecodable."""
    if not is_undecodable(refusal):
        return refusal
    detail = refusal.message.partition(": ")[2]
    if strategic is not None:
        shown, detail = go_text(strategic), _conversion_fault(detail)
    elif obj is not None:
        shown = orjson.dumps(_in_order(obj)).decode()
    else:
        return _invalid(f"Invalid value: {detail}")
    return _invalid(errors.invalid("patch", shown, detail).message)


def _invalid(text: str) -> Refusal:
    return errors.is_invalid("", "", "", [errors.Cause("patch", text)])


def _conversion_fault(detail: str) -> str:
    """A strategic merge is converted from a map, and not decoded from JSON: its faults have other words."""
    match = _UNFIT.fullmatch(detail)
    if match is None:
        return detail
    value_kind, go_type = _KINDS.get(match[1], match[1]), match[2]
    if go_type.startswith("[]"):
        return f"cannot restore slice from {value_kind}"
    if go_type.startswith("map["):
        return f"cannot restore map from {value_kind}"
    if "." in go_type:
        return f"cannot restore struct from: {value_kind}"
    return f"unrecognized type: {go_type}"


def _in_order(obj: Json) -> Json:
    ordered = {name: obj[name] for name in sorted(obj)}
    if metadata := mapping(ordered, "metadata"):
        first = {name: metadata[name] for name in _METADATA if name in metadata}
        ordered["metadata"] = first | metadata
    return ordered


def go_text(value: Any) -> str:
    """A value as Go's `%v` prints it."""
    match value:
        case dict():
            return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(go_text, value)) + "]"
        case bool():
            return str(value).lower()
        case None:
            return "<nil>"
    return str(value)
