from datetime import UTC, datetime
from typing import Any

import pytest

from steelyard.schema.resources import RESOURCES
from steelyard.schema.status import allows
from steelyard.services.informer import Observed, entity_of, slim, status_of
from steelyard.services.statuses import Status

Json = dict[str, Any]
NOON = "2026-01-01T12:00:00Z"


def make_resource(
    kind: str, condition: str = "", reason: str = "", message: str = "", **metadata: Any
) -> Json:
    """A resource of entity x1 whose condition holds since noon, beside all others of its kind, which do not."""
    conditions = [
        {
            "type": each,
            "status": "True" if each == condition else "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": NOON if each == condition else "2026-01-01T11:00:00Z",
        }
        for each in RESOURCES[kind].conditions
    ]
    return {
        "kind": kind,
        "metadata": {
            "name": f"{kind.lower()}-x1",
            "namespace": "n",
            "uid": "uid-1",
            "resourceVersion": "7",
            "labels": {"dyff.io/entity": "x1"},
            **metadata,
        },
        "spec": {},
        "status": {"conditions": conditions} if condition else {},
    }


TABLE = [
    ("Evaluation", "Progressing", "SessionStarting", Status("Admitted", "Incomplete", "words")),
    ("Evaluation", "Progressing", "ClientRunning", Status("Admitted", "Incomplete", "words")),
    ("Evaluation", "Progressing", "Unschedulable", Status("Admitted", "Incomplete", "words")),
    ("Evaluation", "Progressing", "Unverified", Status("Admitted", "Unverified", "words")),
    ("Evaluation", "Progressing", "Restarted", Status("Admitted", "Restarted", "words")),
    ("Evaluation", "Complete", "Verified", Status("Complete")),
    ("Evaluation", "Failed", "ClientFailed", Status("Failed", "ClientFailed", "words")),
    ("Evaluation", "Failed", "NameConflict", Status("Failed", "NameConflict", "words")),
    ("Model", "Progressing", "Fetching", Status("Admitted", None, "words")),
    ("Model", "Ready", "Ready", Status("Ready")),
    ("Model", "Failed", "FetchFailed", Status("Error", "FetchFailed", "words")),
    ("InferenceService", "Progressing", "Building", Status("Admitted", None, "words")),
    ("InferenceService", "Ready", "Ready", Status("Ready")),
    ("InferenceService", "Failed", "BadImage", Status("Error", "BadImage", "words")),
    ("InferenceSession", "Progressing", "Starting", Status("Admitted", "Starting", "words")),
    ("InferenceSession", "Ready", "Ready", Status("Admitted")),
    ("InferenceSession", "Expired", "SessionExpired", Status("Terminated", "SessionExpired", "words")),
    ("InferenceSession", "Failed", "StartDeadline", Status("Error", "StartDeadline", "words")),
    ("Report", "Progressing", "Running", Status("Admitted", None, "words")),
    ("Report", "Complete", "Complete", Status("Complete")),
    ("Report", "Failed", "NoSuchRubric", Status("Failed", "NoSuchRubric", "words")),
    ("Audit", "Progressing", "Running", Status("Admitted", None, "words")),
    ("Audit", "Complete", "Complete", Status("Complete")),
    ("Audit", "Failed", "NotImplemented", Status("Failed", "NotImplemented", "words")),
]


@pytest.mark.parametrize(("kind", "condition", "reason", "said"), TABLE, ids=str)
def test_a_condition_becomes_a_status(kind: str, condition: str, reason: str, said: Status) -> None:
    resource = make_resource(kind, condition, reason, "words")
    assert status_of(resource) == Observed(said, datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert status_of(slim(resource)) == status_of(resource)


@pytest.mark.parametrize(("kind", "condition", "reason", "said"), TABLE, ids=str)
def test_each_status_is_one_that_the_informer_may_bring_about(
    kind: str, condition: str, reason: str, said: Status
) -> None:
    assert allows(kind, "informer", "Admitted", said.status)


@pytest.mark.parametrize("kind", sorted(RESOURCES))
def test_a_resource_that_says_nothing_yet_says_nothing(kind: str) -> None:
    assert status_of(make_resource(kind)) is None


def test_an_end_outweighs_what_else_may_still_hold() -> None:
    resource = make_resource("InferenceSession", "Ready")
    failed = make_resource("InferenceSession", "Failed", "RunnerFailed", "it exited 1")
    resource["status"]["conditions"] += [
        each for each in failed["status"]["conditions"] if each["type"] == "Failed"
    ]
    observed = status_of(resource)
    assert observed
    assert observed.said == Status("Error", "RunnerFailed", "it exited 1")


@pytest.mark.parametrize(
    ("change", "id"),
    [
        ({}, "x1"),
        ({"labels": {}}, None),
        ({"labels": None}, None),
        ({"name": "my-copy"}, None),
        ({"labels": {"dyff.io/entity": "x2"}}, None),
    ],
)
def test_a_resource_speaks_for_the_entity_that_its_label_and_its_name_agree_on(
    change: Json, id: str | None
) -> None:
    assert entity_of(make_resource("Model", "Ready", **change)) == id
