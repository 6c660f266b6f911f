"""Adoption and release by labels: an owner takes objects without a controller that its selector selects, and lets go
of its own that it no longer selects.

`sync.py` calls `claim_children` before each decision. `caches.py` keeps the two indexes that make it cheap where there
is nothing to claim: objects without a controller by each of their labels, owners by one label of their selector.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from steelyard_common.types import Json, mapping
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import Conflict, Invalid, NotFound
from steelyard_kube.objects import (
    controller_uid,
    find_controller,
    is_deleting,
    owner_references,
    read_finalizers,
    read_labels,
)
from steelyard_kube.resource import Resource, find_resource
from steelyard_local_kubernetes.controllers.pods import matches, owner_reference


def _every(obj: Json) -> bool:
    return True


def _any_member(owner: Json, obj: Json) -> bool:
    return True


@dataclass(frozen=True)
class Adoption:
    """Terms on which an owner claims objects of one kind."""

    children: Resource
    claims: Callable[[Json], bool] = _every  # whether an owner claims anything
    fits: Callable[[Json], bool] = _every  # whether an object may be adopted
    # What an object has to be, in addition to what the selector asks, to be adopted or to stay.
    is_member: Callable[[Json, Json], bool] = _any_member
    finalizer: str = ""  # that adopted objects get, and released ones lose
    releases: bool = True


def read_selector(owner: Json) -> Json | None:
    """The selector; None where there is none, which selects nothing."""
    selector: Json | None = owner["spec"].get("selector")
    return selector


def selects(owner: Json, obj: Json) -> bool:
    selector = read_selector(owner)
    return selector is not None and matches(selector, read_labels(obj))


def selector_key(owner: Json) -> list[str]:
    """Return the index value of an owner: a label that its selector demands, or none if it demands no value."""
    namespace = owner["metadata"].get("namespace", "")
    selector = read_selector(owner)
    if selector is None:
        return []
    demanded = mapping(selector, "matchLabels")
    return ["/".join((namespace, *min(demanded.items()))) if demanded else f"{namespace}/"]


def orphan_keys(obj: Json) -> list[str]:
    """Return the index values of an object: those of the owners that could select it; none if it has a controller."""
    if find_controller(obj) is not None:
        return []
    namespace = obj["metadata"].get("namespace", "")
    return [f"{namespace}/", *("/".join((namespace, *label)) for label in read_labels(obj).items())]


async def claim_children(
    cluster: Cluster,
    owner: Json,
    adoptions: Iterable[tuple[Adoption, Iterable[Json]]],
    children: list[Json],
) -> list[Json]:
    """Adopt and release; return the children with those adopted and without those released.

    Each adoption comes with the objects without a controller that may be meant. What another has changed meanwhile
    is left alone: its change wakes the owner again.
    """
    if is_deleting(owner) or read_selector(owner) is None:
        return children
    claimed = {child["metadata"]["uid"]: child for child in children}
    uid, alive = owner["metadata"]["uid"], False
    for adoption, orphans in adoptions:
        if not adoption.claims(owner):
            continue
        for child in children if adoption.releases else ():
            if controller_uid(child) != uid or find_resource(child) != adoption.children:
                continue
            if not (selects(owner, child) and adoption.is_member(owner, child)):
                # Invalid where another has released it already, as Kubernetes' controllers take it.
                with suppress(Invalid):
                    await _patch(cluster, child, _without(owner, child, adoption.finalizer))
                del claimed[child["metadata"]["uid"]]
        for orphan in list(orphans):
            if not may_adopt(owner, orphan, adoption):
                continue
            # The API itself is asked: the cache may still show an owner that is being deleted, and whose dependents
            # the garbage collector is just orphaning.
            alive = alive or await _is_alive(cluster, owner)
            if not alive:
                return list(claimed.values())
            if adopted := await _patch(cluster, orphan, _with(owner, orphan, adoption.finalizer)):
                claimed[adopted["metadata"]["uid"]] = adopted
    return list(claimed.values())


def may_adopt(owner: Json, obj: Json, adoption: Adoption) -> bool:
    """Return whether an owner may take an object, as far as the two objects show it."""
    if find_controller(obj) is not None or is_deleting(obj) or find_resource(obj) != adoption.children:
        return False
    return selects(owner, obj) and adoption.is_member(owner, obj) and adoption.fits(obj)


async def _is_alive(cluster: Cluster, owner: Json) -> bool:
    metadata = owner["metadata"]
    try:
        there = await cluster.get(find_resource(owner), metadata["name"], metadata.get("namespace"))
    except NotFound:
        return False
    return bool(there["metadata"]["uid"] == metadata["uid"]) and not is_deleting(there)


def _with(owner: Json, obj: Json, finalizer: str) -> Json:
    others = [reference for reference in owner_references(obj) if not _names(reference, owner)]
    patch: Json = {"ownerReferences": [*others, owner_reference(owner)]}
    if finalizer and finalizer not in read_finalizers(obj):
        patch["finalizers"] = [*read_finalizers(obj), finalizer]
    return patch


def _without(owner: Json, obj: Json, finalizer: str) -> Json:
    others = [reference for reference in owner_references(obj) if not _names(reference, owner)]
    patch: Json = {"ownerReferences": others or None}
    if finalizer in read_finalizers(obj):
        patch["finalizers"] = [held for held in read_finalizers(obj) if held != finalizer] or None
    return patch


def _names(reference: Json, owner: Json) -> bool:
    return bool(reference.get("uid") == owner["metadata"]["uid"])


async def _patch(cluster: Cluster, obj: Json, metadata: Json) -> Json | None:
    """Write the metadata if the object has not changed since it was read. Raises ApiError where it is refused."""
    known = obj["metadata"]
    patch = {"metadata": {**metadata, "resourceVersion": known["resourceVersion"]}}
    try:
        return await cluster.patch(find_resource(obj), known["name"], patch, known.get("namespace"))
    except (Conflict, NotFound):
        return None
