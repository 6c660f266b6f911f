"""The two patch formats that every resource takes: merge patch (RFC 7386) and JSON patch (RFC 6902)."""

from typing import Any

from steelyard_common.types import Json
from steelyard_kube.cluster import Patch
from steelyard_kube.errors import Invalid


def apply_patch(obj: Json, patch: Patch) -> Json:
    """A patched copy; parts that the patch does not touch are shared with `obj`."""
    return merge_patch(obj, patch) if isinstance(patch, dict) else json_patch(obj, patch)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, dicts merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(obj: Json, patch: list[Json]) -> Json:
    """RFC 6902; what cannot be applied, a failed `test` too, is Invalid, as the API server has it."""
    import jsonpatch  # only the double applies patches itself: the operator's installation need not have it

    try:
        patched: Json = jsonpatch.apply_patch(obj, patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise Invalid(f"the server rejected our request due to an error in our request: {error}") from error
    return patched
