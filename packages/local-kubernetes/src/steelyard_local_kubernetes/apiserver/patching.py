"""Patches: merge patch, JSON patch and, of built-in kinds, strategic merge patch; others are refused by name."""

import copy
from collections.abc import Callable
from typing import Any, cast

from steelyard_common.types import Json, JsonValue
from steelyard_kube.patches import merge_patch
from steelyard_kube.strategic import MissingMergeKey, UnknownDirective, Unmergeable, strategic_merge
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.content import TOO_DEEP, is_too_deep
from steelyard_local_kubernetes.apiserver.errors import Refusal
from steelyard_local_kubernetes.apiserver.json_patches import TooMuch, Unfit, apply_operations
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.messages import Request
from steelyard_local_kubernetes.apiserver.options import Options
from steelyard_local_kubernetes.apiserver.parameters import content_type, json_value
from steelyard_local_kubernetes.apiserver.patch_refusals import go_text
from steelyard_local_kubernetes.apiserver.strict import has_key_twice, strict_faults

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
MAX_OPERATIONS = 10_000
_REJECTED = "the server rejected our request due to an error in our request"
# What the patch libraries raise for patches that do not fit the object, or are no patches.
_UNFIT = (TypeError, KeyError, ValueError, IndexError, AttributeError, RecursionError)


def make_patch(request: Request, kind: ResourceType, options: Options) -> Callable[[Json], Json]:
    """The patch as a function of an object, whose result every part of the server can work on."""
    apply, patch = _patch(request, kind)
    if options.validation != "Ignore" and has_key_twice(request.body, patch):
        options.faults += strict_faults(kind.node(), request.body, free=True)
    return apply


def _patch(request: Request, kind: ResourceType) -> tuple[Callable[[Json], Json], JsonValue]:
    """The patch as a function of an object, and as it was sent."""
    sent = content_type(request)
    # Kubernetes has strategic merges for built-in kinds only: a
    # definition says nothing of how its lists are merged.
    if sent == STRATEGIC and not kind.custom:
        patch = _object(request.body)
        return _strategic(kind, patch), patch
    if sent == MERGE:
        patch = _object(request.body)
        return lambda obj: cast("Json", merge_patch(obj, patch)), patch
    if sent == JSON_PATCH:
        operations = _operations(request.body)
        return _json_patch(operations), operations
    if sent != STRATEGIC:
        raise Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    text = f"accepted media types include: {JSON_PATCH}, {MERGE}, application/apply-patch+yaml"
    raise errors.bad_media_type(f"the body of the request was in an unknown format - {text}")


def _object(body: bytes) -> Json:
    patch = json_value(body)
    if not isinstance(patch, dict):
        text = (
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
        raise errors.bad_request(text)
    return patch


def _operations(body: bytes) -> list[Any]:
    operations = json_value(body)
    if not isinstance(operations, list):
        text = (
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
        raise errors.bad_request(text)
    if len(operations) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise Refusal(413, "RequestEntityTooLarge", text)
    return operations


def _json_patch(operations: list[Any]) -> Callable[[Json], Json]:
    def apply(obj: Json) -> Json:
        try:
            # Operations change what they are given, and the object is compared with its old form afterwards.
            result = apply_operations(copy.deepcopy(obj), operations)
        except TooMuch as error:
            raise Refusal(413, "RequestEntityTooLarge", str(error)) from error
        except (Unfit, RecursionError) as error:
            raise Refusal(422, "Invalid", _REJECTED, {}) from error
        # Operations put one deep value into another, unlike a merge, whose result is no deeper than object and patch.
        if is_too_deep(result):
            raise errors.is_invalid("", "", "", [errors.Cause("patch", f"Invalid value: {TOO_DEEP}")])
        if not isinstance(result, dict):
            raise Refusal(422, "Invalid", _REJECTED, {})
        return result

    return apply


def _strategic(kind: ResourceType, patch: Json) -> Callable[[Json], Json]:
    def apply(obj: Json) -> Json:
        try:
            return strategic_merge(kind.node(), obj, patch)
        except Unmergeable as fault:
            raise _unmergeable(fault) from fault
        except _UNFIT as error:
            raise errors.bad_request(
                f"error decoding patch: it does not fit a {kind.kind}: {error}"
            ) from error

    return apply


def _unmergeable(fault: Unmergeable) -> Refusal:
    """Word a fault as a real server does, which answers 500 to most of them."""
    match fault:
        case UnknownDirective():
            text = f"unknown patch type: {go_text(fault.directive)} in map: {go_text(fault.patch)}"
        case MissingMergeKey():
            text = f"map: {go_text(fault.element)} does not contain declared merge key: {fault.key}"
        case _:
            return errors.bad_request(str(fault))
    return Refusal(500, "", text)
