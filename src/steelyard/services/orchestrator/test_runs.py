"""Runs and submissions that a change concerns, and the commands that give them the status of their workflows."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from steelyard.accounts.claims import Claim
from steelyard.services.orchestrator.runs import Follower, ObservedRuns, list_followed, status_change
from steelyard.services.orchestrator.test_waiting import claim_of
from steelyard.services.simulation.entities import (
    START,
    make_base,
    make_dataset,
    make_evaluation,
    make_report,
)
from steelyard_schema.base import DyffEntity
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.submission import Submission

FIRST, SECOND = make_evaluation("e1"), make_report("r1")


def make_run(id: str = "p1", status: str = "Created") -> PipelineRun:
    workflows = {
        "first": {"kind": "Evaluation", "id": FIRST.id},
        "second": {"kind": "Report", "id": SECOND.id},
    }
    return PipelineRun.parse({**make_base(id), "status": status, "pipeline": "p", "workflows": workflows})


def make_submission(id: str = "s1") -> Submission:
    fields = {"team": "t1", "submission": {"kind": "Model", "id": "m1"}, "challenge": "c1", "task": "a"}
    return Submission.parse({**make_base(id), **fields, "pipelineRun": "p1"})


def with_status(entity: DyffEntity, status: str) -> Claim:
    return replace(claim_of(entity), status=status)


def changed(runs: ObservedRuns) -> set[str]:
    return {follower.claim.id for follower in runs.take_changed()}


@pytest.fixture
def runs() -> ObservedRuns:
    """Return a run and its submission, about which a pass has decided already."""
    observed = ObservedRuns()
    observed.update("p1", claim_of(make_run()))
    observed.update("s1", claim_of(make_submission()))
    assert changed(observed) == {"p1", "s1"}
    return observed


def test_a_change_concerns_each_follower_once(runs: ObservedRuns) -> None:
    assert runs.update("e1", claim_of(FIRST))
    assert (changed(runs), changed(runs)) == ({"p1"}, set())
    assert runs.update("p1", with_status(make_run(), "Admitted"))
    assert changed(runs) == {"p1", "s1"}
    assert runs.update("r1", None), "a workflow was forgotten"
    assert changed(runs) == {"p1"}


def test_a_change_of_anything_else_concerns_no_one(runs: ObservedRuns) -> None:
    assert not runs.update("d1", claim_of(make_dataset()))
    assert changed(runs) == set()


@pytest.mark.parametrize("claim", [with_status(make_run(), "Complete"), None], ids=["ended", "forgotten"])
def test_a_run_that_is_over_is_let_go_of(runs: ObservedRuns, claim: Claim | None) -> None:
    assert runs.update("p1", claim), "its submission follows it"
    assert changed(runs) == {"s1"}
    assert not runs.update("e1", claim_of(FIRST))
    runs.mark_all_changed()
    assert changed(runs) == {"s1"}
    assert runs._by_followed.keys() == {"p1"}, "what nobody follows takes no memory"


RUN = Follower(claim_of(make_run()), {"first": "e1", "second": "r1"})
SUBMISSION = Follower(claim_of(make_submission()), {"run": "p1"})


@pytest.mark.parametrize(
    ("follower", "known", "forgotten", "status"),
    [
        (RUN, [], set(), None),
        (RUN, [with_status(FIRST, "Admitted")], set(), "Admitted"),
        (RUN, [with_status(FIRST, "Complete")], set(), "Admitted"),
        (RUN, [with_status(FIRST, "Complete"), with_status(SECOND, "Complete")], set(), "Complete"),
        (RUN, [with_status(FIRST, "Complete"), with_status(SECOND, "Failed")], set(), "Failed"),
        (RUN, [with_status(FIRST, "Complete")], {"r1"}, "Terminated"),
        (SUBMISSION, [with_status(make_run(), "Admitted")], set(), "Admitted"),
        (SUBMISSION, [with_status(make_run(), "Failed")], set(), "Error"),
        (SUBMISSION, [], set(), None),
        (SUBMISSION, [], {"p1"}, "Terminated"),
    ],
    ids=[
        "nothing is known yet", "one has begun", "one has ended", "all are complete", "one has failed",
        "one is forgotten", "a run goes on", "a run has failed", "a run is not known yet", "a run is forgotten",
    ],
)  # fmt: skip
def test_the_status_that_follows(
    follower: Follower, known: list[Claim], forgotten: set[str], status: str | None
) -> None:
    command = status_change(follower, {claim.id: claim for claim in known}, frozenset(forgotten), START)
    if status is None:
        assert command is None
        return
    assert command is not None
    assert command.value is not None
    assert json.loads(command.value)["data"]["attributes"]["status"] == status


def test_the_same_change_is_the_same_command_and_one_that_was_made_is_none() -> None:
    known = {"e1": with_status(FIRST, "Admitted")}
    command = status_change(RUN, known, frozenset(), START)
    later = status_change(RUN, known, frozenset(), START + timedelta(hours=1))
    assert command is not None
    assert later is not None
    assert command.headers["id"] == later.headers["id"]
    moved = replace(RUN, claim=replace(RUN.claim, position=(1, 2)))
    again = status_change(moved, known, frozenset(), START)
    assert again is not None
    assert again.headers["id"] != command.headers["id"], "a run that has gone back needs another command"
    made = replace(RUN, claim=replace(RUN.claim, status="Admitted"))
    assert status_change(made, known, frozenset(), START) is None


def test_what_is_followed() -> None:
    assert list_followed([RUN, SUBMISSION]) == {"e1", "r1", "p1"}
