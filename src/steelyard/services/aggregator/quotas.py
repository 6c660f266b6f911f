"""A quota that is set: it may be there with another limit, be deleted, or have been forgotten. Pure."""

from collections.abc import Mapping

from steelyard.services.aggregator.check import check_same_entity
from steelyard_common.types import Json
from steelyard_schema.quota import Quota
from steelyard_schema.stored import with_revision

_LIMIT = ("limit", "duration", "epoch")
_KEPT = ("creationTime", "labels", "usage", "metadata")


def put_quota(quota: Quota, headers: Mapping[str, str], content: Json | None) -> Json:
    """Return the quota's new content; the content itself if nothing changes. Raises Rejected for another revision.

    A quota's id follows from what it limits, so that a forgotten one may be set again: it is not the old one that a
    late command would bring back. The command's time becomes `lastTransitionTime`: entities that were created before
    it are not measured by the new limit.
    """
    new = {**quota.dump(), "lastTransitionTime": headers["time"]}
    if content is None:
        return with_revision(new, headers["id"])
    check_same_entity("Quota", headers, content)
    if content["status"] == new["status"] and all(content.get(name) == new.get(name) for name in _LIMIT):
        return content
    kept = {name: value for name, value in content.items() if name in _KEPT}
    return with_revision(new | kept, headers["id"])
