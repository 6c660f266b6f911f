"""Disruption budgets: how many Pods may be evicted now."""

from datetime import UTC, datetime, timedelta

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.controllers.disruption import decide
from steelyard_local_kubernetes.controllers.objects import make_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_budget(**spec: object) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "demo"}}, **spec},
    }


def replicas(count: int, ready: int) -> list[Json]:
    pods = [make_pod(f"p{index}", ready=index < ready) for index in range(count)]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "rs", "controller": True}]
    return pods


def owner(kind: str, name: str) -> Json | None:
    above: Json = {"ownerReferences": [{"kind": "Deployment", "name": "d", "controller": True}]}
    objects: dict[tuple[str, str], Json] = {
        ("ReplicaSet", "rs"): {"metadata": above, "spec": {"replicas": 1}},
        ("Deployment", "d"): {"metadata": {}, "spec": {"replicas": 4}},
    }
    return objects.get((kind, name))


@pytest.mark.parametrize(
    ("spec", "ready", "allowed"),
    [
        ({"minAvailable": 3}, 4, 1),
        ({"minAvailable": 3}, 3, 0),
        ({"minAvailable": "50%"}, 4, 2),
        ({"minAvailable": "51%"}, 4, 1),
        ({"maxUnavailable": 1}, 4, 1),
        ({"maxUnavailable": 1}, 2, 0),
        ({"maxUnavailable": "25%"}, 4, 1),
        ({}, 4, 3),
        ({"minAvailable": 1, "selector": {"matchLabels": {"app": "other"}}}, 4, 0),
    ],
)
def test_a_budget_allows_what_it_can_spare(spec: Json, ready: int, allowed: int) -> None:
    status, _ = decide(make_budget(**spec), replicas(4, ready), owner, NOW)
    assert status is not None
    assert status["disruptionsAllowed"] == allowed
    condition = status["conditions"][0]
    assert condition["reason"] == ("SufficientPods" if allowed else "InsufficientPods")
    assert decide({**make_budget(**spec), "status": status}, replicas(4, ready), owner, NOW)[0] is None


def test_an_evicted_pod_does_not_count_until_it_is_seen_to_stay() -> None:
    budget = make_budget(minAvailable=3)
    budget["status"] = {"disruptedPods": {"p0": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z"}}
    status, again = decide(budget, replicas(4, 4), owner, NOW)
    assert status is not None
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["p0"])
    assert again == 120.0
    status, again = decide(budget, replicas(4, 4), owner, NOW + timedelta(seconds=121))
    assert status is not None
    assert (status["disruptionsAllowed"], "disruptedPods" in status, again) == (1, False, None)


def test_a_share_of_pods_of_unknown_owners_allows_nothing() -> None:
    pods = replicas(2, 2)
    pods[0]["metadata"]["ownerReferences"][0]["kind"] = "Job"
    status, _ = decide(make_budget(minAvailable="50%"), pods, owner, NOW)
    assert status is not None
    assert status["disruptionsAllowed"] == 0
    assert status["conditions"][0]["reason"] == "SyncFailed"
