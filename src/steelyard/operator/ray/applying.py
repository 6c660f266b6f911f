"""Writes of the platform's side: an object is created, corrected where it is ours, and left alone where it is not."""

import asyncio
import logging

from steelyard.operator.ray.admission.configurations import NAME
from steelyard.operator.ray.owned import MANAGED
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from steelyard_kube.objects import controller_uid, read_annotations, read_labels
from steelyard_kube.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, find_resource

_log = logging.getLogger(__name__)
RETRY_SECONDS = 5.0
_NOT_CONTENT = frozenset({"apiVersion", "kind", "metadata", "status"})


async def apply(cluster: Cluster, desired: Json, owner_uid: str | None) -> None:
    """Create an object, or correct one that is ours; another's of the same name stays as it is.

    An object is ours if the owner controls it; without an owner, if it has our label. Raises ApiError to be tried
    again.
    """
    resource, metadata = find_resource(desired), desired["metadata"]
    try:
        await cluster.create(resource, desired)
        return
    except AlreadyExists:
        pass
    present = await cluster.get(resource, metadata["name"], metadata.get("namespace"))
    if not _is_ours(present, owner_uid):
        _log.warning("%s %s belongs to another, and is left alone", desired["kind"], metadata["name"])
        return
    annotations = metadata.get("annotations", {})
    content = {field: value for field, value in desired.items() if field not in _NOT_CONTENT}
    same = covers({field: present.get(field) for field in content}, content)
    if same and covers(read_annotations(present), annotations):
        return
    version = present["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version, "annotations": annotations}, **content}
    try:
        await cluster.patch(resource, metadata["name"], patch, metadata.get("namespace"))
    except (Conflict, NotFound) as error:
        raise ApiError(f"{desired['kind']} {metadata['name']} has changed meanwhile") from error


def _is_ours(present: Json, owner_uid: str | None) -> bool:
    if owner_uid is not None:
        return controller_uid(present) == owner_uid
    return read_labels(present).items() >= MANAGED.items()


async def apply_configurations(cluster: Cluster, desired: list[Json]) -> None:
    """Apply the desired webhooks, and remove our others: one without a server refuses all."""
    for configuration in desired:
        await apply(cluster, configuration, None)
    kinds = {configuration["kind"] for configuration in desired}
    for resource in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS):
        if resource.kind in kinds:
            continue
        try:
            present = await cluster.get(resource, NAME)
            if _is_ours(present, None):
                await cluster.delete(resource, NAME, uid=present["metadata"]["uid"])
        except (NotFound, Forbidden):  # an operator that may not read them has never made any
            continue


async def remove_configurations(cluster: Cluster, pause: float = RETRY_SECONDS) -> None:
    """Remove the webhooks that an earlier setting has made; try again every `pause` seconds while the API fails."""
    while True:
        try:
            return await apply_configurations(cluster, [])
        except ApiError as error:
            _log.warning(
                "webhooks of an earlier setting cannot be removed: %s; again in %.1f s", error, pause
            )
        await asyncio.sleep(pause)


def covers(present: object, desired: object) -> bool:
    """Return whether an object has all desired fields; those that the API has added do not count."""
    if isinstance(desired, dict):
        return isinstance(present, dict) and all(
            covers(present.get(key), value) for key, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(present, list)
            and len(present) == len(desired)
            and all(covers(old, new) for old, new in zip(present, desired, strict=True))
        )
    return present == desired
