"""Patches: merge patch and JSON patch; what else Kubernetes has is refused by name."""

import copy
from collections.abc import Callable

import jsonpatch

from steelyard.kube.patches import merge_patch
from steelyard.local.apiserver import errors
from steelyard.local.apiserver.errors import Refusal
from steelyard.local.apiserver.kinds import ResourceType
from steelyard.local.apiserver.messages import Json, Request
from steelyard.local.apiserver.parameters import content_type, json_value

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
_LATER = {
    "application/strategic-merge-patch+json": "strategic merge patch",
    "application/apply-patch+yaml": "server-side apply",
    "application/apply-patch+cbor": "server-side apply",
}
MAX_OPERATIONS = 10_000


def patched(request: Request, kind: ResourceType) -> Callable[[Json], Json]:
    """The patch as a function of an object."""
    sent = content_type(request)
    if sent in _LATER:
        text = f"this server does not serve {_LATER[sent]}: send {MERGE} or {JSON_PATCH}"
        advice = "; with kubectl: `kubectl patch --type=merge`, or `kubectl replace`"
        raise errors.unsupported_media(text + ("" if kind.custom else advice))
    if sent == MERGE:
        return _merge(request.body)
    if sent == JSON_PATCH:
        return _json_patch(request.body)
    raise Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def _merge(body: bytes) -> Callable[[Json], Json]:
    patch = json_value(body)
    if not isinstance(patch, dict):
        text = (
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
        raise errors.bad_request(text)

    def merged(obj: Json) -> Json:
        result: Json = merge_patch(obj, patch)
        return result

    return merged


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
