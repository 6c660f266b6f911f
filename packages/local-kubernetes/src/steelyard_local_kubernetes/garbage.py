"""Decisions of garbage collection: what becomes of an object whose owners go.

The embedded server carries them out itself (`apiserver/lifecycle.py`), the controller for other servers by requests
(`controllers/garbage/`). The rules are those of Kubernetes' own collector.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from steelyard_common.types import Json
from steelyard_kube.objects import is_deleting, owner_references, read_finalizers

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
OwnerState = Literal["alive", "gone", "waiting"]
"""State of an owner. `waiting`: it is being deleted in the foreground, and waits for its dependents."""


@dataclass(frozen=True)
class Verdict:
    """Changes that an object needs; an empty one needs none."""

    forget: frozenset[str] = frozenset()  # uids whose owner references are dropped
    unblock: bool = False  # before it is deleted, its references are made to block no owner
    delete: Literal["", "Background", "Foreground", "Orphan"] = ""


def collect(
    obj: Json, owners: Sequence[tuple[Json, OwnerState]], dependents: Callable[[], Iterable[Json]]
) -> Verdict:
    """Decide about an object that is not being deleted, by its references and what became of each owner."""
    by_state: dict[OwnerState, list[str]] = {"alive": [], "gone": [], "waiting": []}
    for reference, state in owners:
        by_state[state].append(reference["uid"])
    if by_state["alive"]:
        # One living owner keeps an object. An owner that waits for it would wait for ever: it is forgotten, too.
        return Verdict(forget=frozenset((*by_state["gone"], *by_state["waiting"])))
    if by_state["waiting"]:
        left = list(dependents())
        if left:
            # In a circle the object's own dependent waits already: both would wait for each other.
            circle = any(waits_for_dependents(dependent) for dependent in left)
            return Verdict(unblock=circle, delete="Foreground")
    finalizers = read_finalizers(obj)
    if ORPHAN in finalizers:
        return Verdict(delete="Orphan")
    return Verdict(delete="Foreground" if FOREGROUND in finalizers else "Background")


def waits_for_dependents(obj: Json) -> bool:
    return is_deleting(obj) and FOREGROUND in read_finalizers(obj)


def blocks(dependent: Json, uid: str) -> bool:
    """Return whether an owner that is deleted in the foreground has to wait for this dependent."""
    return any(
        owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owner_references(dependent)
    )


def without_owners(metadata: Json, uids: Iterable[str]) -> Json:
    """The change of the metadata that drops references."""
    dropped = set(uids)
    left = [owner for owner in metadata.get("ownerReferences") or () if owner["uid"] not in dropped]
    return {"ownerReferences": left or None}


def without_finalizer(metadata: Json, name: str) -> Json:
    """The change of the metadata that drops a finalizer."""
    left = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != name]
    return {"finalizers": left or None}


def unblocking(metadata: Json) -> Json:
    """The change of the metadata by which an object blocks no owner any more."""
    owners = metadata.get("ownerReferences") or ()
    return {"ownerReferences": [{**owner, "blockOwnerDeletion": False} for owner in owners]}
