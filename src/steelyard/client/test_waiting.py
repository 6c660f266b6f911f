"""Waiting: when it ends, how often it polls, and what it says."""

from itertools import pairwise
from typing import Any

import pytest

from steelyard.client.conftest import Ask
from steelyard.client.errors import NotFound, NothingToWaitFor, Unreachable, WaitTimeout, WorkflowFailed
from steelyard.client.retries import Retries
from steelyard.client.test_client import FIELDS
from steelyard.client.waiting import AWAY_SECONDS, FIRST_PAUSE, LONGEST_PAUSE, Waiting
from steelyard.testing.platform import FakePlatform, refused, unreachable
from steelyard_schema.entities import AnyEntity, parse_entity

ONCE = Retries(tries=1)


def make_entity(
    status: str, reason: str | None = None, message: str | None = None, kind: str = "Audit"
) -> AnyEntity:
    interface = {"endpoint": "x", "outputSchema": {"arrowSchema": ""}}
    service = {"id": "s", "account": "a", "name": "s", "interface": interface}
    own: dict[str, dict[str, Any]] = {
        "Audit": {"auditProcedure": "p", "inferenceService": "s"},
        "InferenceSession": {"inferenceService": service},
        "PipelineRun": {"pipeline": "p", "workflows": {}},
        "Submission": {
            "team": "t",
            "submission": {"id": "s", "kind": "Model"},
            "challenge": "c",
            "task": "t",
            "pipelineRun": "r",
        },
        "Team": {"challenge": "c", "name": "t", "members": {}, "affiliations": {}},
    }
    said = {"status": status, "reason": reason, "message": message}
    return parse_entity(
        {
            "id": "a" * 32,
            "account": "a",
            "kind": kind,
            "creationTime": "2030-01-01T00:00:00Z",
            **own[kind],
            **said,
        }
    )


def test_pauses_grow_to_two_seconds_and_start_again_with_a_change() -> None:
    waiting, entity = Waiting[Any](until=1000), make_entity("Created")
    pauses = [waiting.observe(entity, now) for now in range(12)]
    assert pauses[0] == FIRST_PAUSE
    assert pauses[-1] == LONGEST_PAUSE
    assert all(a is not None and b is not None and a <= b for a, b in pairwise(pauses))
    assert waiting.observe(make_entity("Admitted"), 13) == FIRST_PAUSE


def test_no_pause_is_longer_than_the_time_left() -> None:
    waiting = Waiting[Any](until=10.25, _pause=2.0)
    waiting.last = make_entity("Created")
    assert waiting.observe(make_entity("Created"), 10.0) == 0.25


ENDS = {
    "a success": ("Complete", "Audit", None, None),
    "another success": ("Ready", "Audit", None, None),
    "a failure": ("Failed", "Audit", None, WorkflowFailed),
    "an error": ("Error", "Audit", None, WorkflowFailed),
    "deleted": ("Deleted", "Audit", None, WorkflowFailed),
    "terminated": ("Terminated", "Audit", None, WorkflowFailed),
    "a run that was ended": ("Terminated", "PipelineRun", None, WorkflowFailed),
    "a submission beyond the limit": ("Error", "Submission", None, WorkflowFailed),
    "a session that is ready": ("Admitted", "InferenceSession", True, None),
    "a session that was ended": ("Terminated", "InferenceSession", None, WorkflowFailed),
}


@pytest.mark.parametrize(("status", "kind", "ready", "error"), ENDS.values(), ids=ENDS)
def test_how_a_wait_ends(status: str, kind: str, ready: bool | None, error: type[Exception] | None) -> None:
    waiting, entity = Waiting[Any](until=10), make_entity(status, "Reason", "words", kind)
    if error is None:
        assert waiting.observe(entity, 0, ready=ready) is None
        return
    with pytest.raises(error, match=f"{kind} a+ is {status}: Reason: words"):
        waiting.observe(entity, 0, ready=ready)


NO_END = {"Team": "Active"}


@pytest.mark.parametrize(("kind", "status"), NO_END.items(), ids=NO_END)
def test_what_shows_no_success_is_not_waited_for(kind: str, status: str) -> None:
    with pytest.raises(NothingToWaitFor, match=f"{kind} a+ is {status}, which shows no success: "):
        Waiting[Any](until=10).observe(make_entity(status, kind=kind), 0)


@pytest.mark.parametrize(("status", "ready"), [("Created", None), ("Admitted", False), ("Admitted", None)])
def test_an_admitted_session_is_not_ready_before_a_replica_answers(status: str, ready: bool | None) -> None:
    entity = make_entity(status, kind="InferenceSession")
    assert Waiting[Any](until=10).observe(entity, 0, ready=ready) is not None


def test_a_platform_that_is_away_is_waited_for_and_in_the_end_not() -> None:
    waiting, error = Waiting[Any](until=1000), Unreachable("gone")
    with pytest.raises(Unreachable):  # nothing was ever seen: the id may be wrong
        waiting.away(error, 0)
    waiting.observe(make_entity("Created"), 0)
    waiting.away(error, 1)
    waiting.away(error, 1 + AWAY_SECONDS)
    waiting.observe(make_entity("Created"), 50)
    waiting.away(error, 60)
    with pytest.raises(Unreachable):
        waiting.away(error, 61 + AWAY_SECONDS)


# ---- the whole flow


def test_a_wait_reports_each_change_once_and_gives_the_entity(ask: Ask, fake: FakePlatform) -> None:
    entity = ask(fake, lambda client: client.datasets.create(**FIELDS))
    life = iter([("Created", "QuotaLimit", "3 of 3"), ("Ready", None, None)])

    def changed(seen: Any) -> None:
        states.append((seen.status, seen.message))
        if following := next(life, None):
            fake.put(entity, **dict(zip(("status", "reason", "message"), following, strict=True)))

    states: list[tuple[str, str | None]] = []
    ended = ask(fake, lambda client: client.datasets.wait(entity.id, on_change=changed))
    assert states == [("WaitingForUpload", None), ("Created", "3 of 3"), ("Ready", None)]
    assert ended.status == "Ready"


def test_a_timeout_says_what_is_waited_for(ask: Ask, fake: FakePlatform) -> None:
    entity = ask(fake, lambda client: client.datasets.create(**FIELDS))
    fake.put(entity, status="Created", reason="UnsatisfiedDependency", message="waiting for Model m")
    with pytest.raises(WaitTimeout, match="UnsatisfiedDependency: waiting for Model m") as caught:
        ask(fake, lambda client: client.datasets.wait(entity.id, timeout=0.05))
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.entity.status == "Created"


def test_an_upload_that_was_forgotten_is_what_is_waited_for(ask: Ask, fake: FakePlatform) -> None:
    entity = ask(fake, lambda client: client.datasets.create(**FIELDS))
    with pytest.raises(WaitTimeout, match="WaitingForUpload: its files have to be uploaded and finalized"):
        ask(fake, lambda client: client.datasets.wait(entity.id, timeout=0))


def test_a_failure_has_the_entity(ask: Ask, fake: FakePlatform) -> None:
    entity = ask(fake, lambda client: client.datasets.create(**FIELDS))
    fake.put(entity, status="Error", reason="UploadFailed", message="a.parquet was changed")
    with pytest.raises(WorkflowFailed, match=r"UploadFailed: a\.parquet was changed") as caught:
        ask(fake, lambda client: client.datasets.wait(entity.id))
    assert caught.value.entity.id == entity.id


def test_a_restart_of_the_platform_is_ridden_out(ask: Ask, fake: FakePlatform) -> None:
    entity = ask(fake, lambda client: client.datasets.create(**FIELDS))

    def changed(seen: Any) -> None:
        fake.put(entity, status="Ready")
        fake.trouble.extend([unreachable, refused(503)])

    assert (
        ask(fake, lambda client: client.datasets.wait(entity.id, on_change=changed), ONCE).status == "Ready"
    )


def test_what_is_not_there_is_not_waited_for(ask: Ask, fake: FakePlatform) -> None:
    with pytest.raises(NotFound):
        ask(fake, lambda client: client.datasets.wait("0" * 32))


def test_a_session_is_waited_for_until_a_replica_answers(ask: Ask, fake: FakePlatform) -> None:
    fake.put(make_entity("Created", kind="InferenceSession"))
    states = []

    def changed(seen: Any) -> None:
        states.append(seen.status)
        if len(states) == 1:
            fake.put(seen, status="Admitted")
        else:
            fake._entities[seen.id]["labels"] = {"ready": ""}

    ask(fake, lambda client: client.inferencesessions.wait("a" * 32, on_change=changed))
    assert states == ["Created", "Admitted"]
    ready_requests = [request for request in fake.requests if request.url.path.endswith("/ready")]
    assert len(ready_requests) == 2, "not yet, and then"
