"""Patches: merge patch, JSON patch and, of built-in kinds, strategic merge patch; others are refused by name."""

import copy
from collections.abc import Callable
from typing import cast

import jsonpatch

from steelyard.kube.patches import merge_patch
from steelyard.local.apiserver import errors
from steelyard.local.apiserver.errors import Refusal
from steelyard.local.apiserver.kinds import ResourceType
from steelyard.local.apiserver.messages import Json, Request
from steelyard.local.apiserver.parameters import content_type, json_value
from steelyard.local.apiserver.strategic import strategic_merge

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_LATER = {
    "application/apply-patch+yaml": "server-side apply",
    "application/apply-patch+cbor": "server-side apply",
}
MAX_OPERATIONS = 10_000


def patched(request: Request, kind: ResourceType) -> Callable[[Json], Json]:
    """The patch as a function of an object."""
    sent = content_type(request)
    if sent in _LATER:
        text = f"this server does not serve {_LATER[sent]}: send {MERGE} or {JSON_PATCH}"
        raise errors.unsupported_media(text)
    if sent == STRATEGIC and not kind.custom:
        patch = _object(request.body)
        return lambda obj: strategic_merge(kind.node(), obj, patch)
    if sent == MERGE:
        patch = _object(request.body)
        return lambda obj: cast("Json", merge_patch(obj, patch))
    if sent == JSON_PATCH:
        return _json_patch(request.body)
    raise Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def _object(body: bytes) -> Json:
    patch = json_value(body)
    if not isinstance(patch, dict):
        text = (
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
        raise errors.bad_request(text)
    return patch


def _json_patch(body: bytes) -> Callable[[Json], Json]:
    operations = json_value(body)
    if not isinstance(operations, list):
        text = (
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        )
        raise errors.bad_request(text)
    if len(operations) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise Refusal(413, "RequestEntityTooLarge", text)

    def applied(obj: Json) -> Json:
        try:
            result = jsonpatch.apply_patch(copy.deepcopy(obj), operations)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
            text = "the server rejected our request due to an error in our request"
            raise Refusal(422, "Invalid", text, {"causes": [{"message": str(error)}]}) from error
        if not isinstance(result, dict):
            raise Refusal(
                422, "Invalid", "the server rejected our request due to an error in our request", {}
            )
        return result

    return applied
