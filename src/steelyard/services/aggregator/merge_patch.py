"""JSON merge patches (RFC 7396): a null removes, an object changes the object that is there, anything else replaces it.
Pure."""

from collections.abc import Mapping

from steelyard_common.types import Json, JsonValue


def merge_patch(content: Mapping[str, JsonValue], patch: Mapping[str, JsonValue]) -> Json:
    """Return the content after the patch."""
    after = dict(content)
    for name, change in patch.items():
        if change is None:
            after.pop(name, None)
        elif isinstance(change, Mapping):
            before = after.get(name)
            after[name] = merge_patch(before if isinstance(before, Mapping) else {}, change)
        else:
            after[name] = change
    return after
