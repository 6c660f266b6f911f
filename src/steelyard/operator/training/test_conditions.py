"""The algebra of v1's conditions, and what a status calls for."""

from datetime import UTC, datetime

import pytest

from steelyard.operator.training.conditions import ConditionChange, ConditionType, apply_change, follows
from steelyard_common.types import Json
from steelyard_kube.times import format_time

THEN, NOW = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (1, 2))


def after(*changes: ConditionChange | ConditionType) -> tuple[Json, ...]:
    """All but the last an hour before it."""
    listed: tuple[Json, ...] = ()
    for number, change in enumerate(changes, 1):
        if not isinstance(change, ConditionChange):
            change = ConditionChange(change, f"Job{change}", change.lower())  # noqa: PLW2901
        listed = apply_change(listed, change, NOW if number == len(changes) else THEN)
    return listed


def short(listed: tuple[Json, ...]) -> str:
    return " ".join(f"{'' if entry['status'] == 'True' else '!'}{entry['type']}" for entry in listed)


def no(condition: ConditionType) -> ConditionChange:
    return ConditionChange(condition, f"JobNo{condition}", "", holds=False)


@pytest.mark.parametrize(
    ("changes", "listed"),
    [
        (("Created", "Running"), "Created Running"),
        (("Created", "Running", "Restarting"), "Created Restarting"),
        (("Created", "Running", "Restarting", "Running"), "Created Running"),
        (("Created", "Running", "Succeeded"), "Created !Running Succeeded"),
        (("Created", "Running", "Failed"), "Created !Running Failed"),
        (("Created", "Restarting", "Failed"), "Created Restarting Failed"),
        (("Created", "Succeeded", "Failed"), "Created Succeeded"),
        (("Created", "Failed", "Succeeded"), "Created Failed"),
        (("Created", "Failed", "Running"), "Created Failed"),
        (("Created", no("Running"), "Suspended"), "Created Suspended"),
        (("Created", "Running", no("Running"), "Suspended"), "Created !Running Suspended"),
        (("Created", "Suspended", no("Suspended"), "Running"), "Created !Suspended Running"),
        (("Running", "Created"), "Running Created"),
    ],
)  # fmt: skip
def test_the_last_change_stands_last(
    changes: tuple[ConditionChange | ConditionType, ...], listed: str
) -> None:
    assert short(after(*changes)) == listed


def test_the_same_for_the_same_reason_changes_nothing() -> None:
    (entry,) = after("Running", ConditionChange("Running", "JobRunning", "said otherwise"))
    assert (entry["message"], entry["lastUpdateTime"]) == ("running", format_time(THEN))


def test_another_reason_is_no_transition() -> None:
    (entry,) = after("Suspended", ConditionChange("Suspended", "Another", "why"))
    assert (entry["lastTransitionTime"], entry["lastUpdateTime"]) == (format_time(THEN), format_time(NOW))


def test_the_end_ends_running() -> None:
    running, _ = after("Running", "Failed")
    assert (running["status"], running["reason"], running["lastTransitionTime"]) == (
        "False",
        "JobRunning",
        format_time(NOW),
    )


def replicas(attempt: int, phase: str) -> list[Json]:
    return [{"type": "Worker", "index": 0, "attempt": attempt, "phase": phase}]


@pytest.mark.parametrize(
    ("before", "now", "more"),
    [
        ({}, {"conditions": [1]}, True),
        ({"restartAt": "a"}, {}, True),
        ({"replicas": replicas(0, "Pending")}, {"replicas": replicas(1, "Pending")}, True),
        ({"replicas": replicas(0, "Pending")}, {"replicas": replicas(0, "Running")}, False),
        ({"replicaStatuses": {}}, {"replicaStatuses": {"Worker": {"active": 1}}}, False),
    ],
)
def test_what_only_says_how_pods_are_calls_for_nothing(before: Json, now: Json, more: bool) -> None:
    assert follows(before, now) is more
