"""Decisions of garbage collection, one row each."""

from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.garbage import (
    FOREGROUND,
    ORPHAN,
    OwnerState,
    Verdict,
    blocks,
    collect,
    unblocking,
    without_owners,
)


def make(name: str = "x", **metadata: Any) -> Json:
    return {"metadata": {"name": name, "uid": name, **metadata}}


WAITS = make("waits", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[FOREGROUND])


@pytest.mark.parametrize(
    ("owners", "dependents", "finalizers", "verdict"),
    [
        pytest.param({"a": "alive"}, [], [], Verdict(), id="a living owner keeps it"),
        pytest.param({"a": "gone"}, [], [], Verdict(delete="Background"), id="no owner is left"),
        pytest.param(
            {"a": "gone", "b": "gone"}, [make()], [], Verdict(delete="Background"), id="all are gone"
        ),
        pytest.param({"a": "alive", "b": "gone"}, [], [], Verdict(frozenset("b")), id="one is gone"),
        pytest.param({"a": "alive", "b": "waiting"}, [], [], Verdict(frozenset("b")), id="one waits for it"),
        pytest.param({"a": "waiting"}, [], [], Verdict(delete="Background"), id="its owner waits"),
        pytest.param(
            {"a": "waiting"}, [make()], [], Verdict(delete="Foreground"), id="its owner waits for all"
        ),
        pytest.param(
            {"a": "waiting"}, [WAITS], [], Verdict(unblock=True, delete="Foreground"), id="a circle"
        ),
        pytest.param({"a": "gone"}, [], [ORPHAN], Verdict(delete="Orphan"), id="it orphans its own"),
        pytest.param(
            {"a": "gone"}, [], [FOREGROUND], Verdict(delete="Foreground"), id="it waits for its own"
        ),
    ],
)
def test_decision(
    owners: dict[str, OwnerState], dependents: list[Json], finalizers: list[str], verdict: Verdict
) -> None:
    references: list[tuple[Json, OwnerState]] = [({"uid": uid}, state) for uid, state in owners.items()]
    assert collect(make(finalizers=finalizers), references, lambda: dependents) == verdict


def test_an_object_blocks_the_owners_that_it_says() -> None:
    obj = make(ownerReferences=[{"uid": "a", "blockOwnerDeletion": True}, {"uid": "b"}])
    assert [blocks(obj, uid) for uid in "abc"] == [True, False, False]
    unblocked = {"metadata": unblocking(obj["metadata"])}
    assert not blocks(unblocked, "a")
    assert without_owners(obj["metadata"], ["a", "b"]) == {"ownerReferences": None}
