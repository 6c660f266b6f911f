"""Ended Pods: which change of one is worth a worker."""

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.kubelet.ended_pods import EndedPods

UID = "a"


def pod(version: int, phase: str = "Succeeded", **metadata: str) -> Json:
    return {
        "metadata": {"uid": UID, "resourceVersion": str(version), **metadata},
        "status": {"phase": phase},
    }


@pytest.fixture
def ended() -> EndedPods:
    """A Pod whose last status was answered with version 9; the watch has sent version 7."""
    pods = EndedPods()
    pods.add(UID, "9", "7")
    return pods


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (pod(9), False),
        (pod(10), False),
        (pod(10, deletionTimestamp="2026-03-01T12:00:00Z"), True),
        (pod(10, "Running"), True),
        (pod(8, "Running"), False),
        (pod(7, "Running"), True),
        (pod(3, "Running"), True),
    ],
    ids=["the answer again", "a label", "deleted", "another's status", "overtaken", "restored", "restored long ago"],
)  # fmt: skip
def test_a_change_of_an_ended_pod(ended: EndedPods, change: Json, expected: bool) -> None:
    assert ended.concerns(change) == expected
    assert UID in ended


def test_what_the_watch_sent_last_is_remembered(ended: EndedPods) -> None:
    assert not ended.concerns(pod(8, "Running"))
    assert ended.concerns(pod(8, "Running")), "told twice: the server was restored"


def test_a_pod_is_forgotten_once(ended: EndedPods) -> None:
    assert ended.remove(UID)
    assert not ended.remove(UID)
    assert UID not in ended
