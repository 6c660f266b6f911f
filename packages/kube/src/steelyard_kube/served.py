"""Resources that a server has, by discovery: for controllers that act on objects of every kind."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from steelyard_common.types import Json, sequence
from steelyard_kube.errors import NotFound
from steelyard_kube.resource import Resource

Read = Callable[[str], Awaitable[Json]]
"""A GET of a path, with the answer's object."""


@dataclass(frozen=True)
class KindVersion:
    """One kind of object in one version. `preferred`: the version that the server itself recommends for the group."""

    resource: Resource
    verbs: frozenset[str]
    preferred: bool


async def list_kinds(read: Read) -> list[KindVersion]:
    """All kinds in all versions, subresources left out."""
    versions = [("", "v1", True)]
    for group in sequence(await read("/apis"), "groups"):
        preferred = (group.get("preferredVersion") or {}).get("version")
        versions += [
            (group["name"], item["version"], item["version"] == preferred)
            for item in sequence(group, "versions")
        ]
    kinds = []
    for group_name, version, preferred in versions:
        try:
            listed = await read(f"/apis/{group_name}/{version}" if group_name else f"/api/{version}")
        except NotFound:  # its definition went between the two requests
            continue
        for item in sequence(listed, "resources"):
            if "/" not in item["name"]:
                resource = Resource(group_name, version, item["name"], item["kind"], item["namespaced"])
                kinds.append(KindVersion(resource, frozenset(sequence(item, "verbs")), preferred))
    return kinds
