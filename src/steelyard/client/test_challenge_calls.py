"""Requests about challenges whose path names what the caller has to give."""

import pytest

from steelyard.client.calls import Calls
from steelyard.client.challenge_calls import SubmissionCalls, TeamCalls
from steelyard.client.errors import Invalid
from steelyard_schema.submission import Submission
from steelyard_schema.team import Team

TEAMS, SUBMISSIONS = TeamCalls("teams", Team), SubmissionCalls("submissions", Submission)
REFUSED: dict[str, tuple[Calls[Team] | Calls[Submission], dict[str, str], str, str]] = {
    "a team without its challenge": (TEAMS, {}, "challenge", "challenge: is missing"),
    "a submission without its task": (SUBMISSIONS, {"challenge": "c"}, "task", "task: is missing"),
    "a submission without both": (SUBMISSIONS, {}, "challenge", "challenge: is missing; task: is missing"),
}


@pytest.mark.parametrize(("calls", "fields", "field", "said"), REFUSED.values(), ids=REFUSED)
def test_a_request_without_a_part_of_its_path_names_that_part(
    calls: Calls[Team] | Calls[Submission], fields: dict[str, str], field: str, said: str
) -> None:
    with pytest.raises(Invalid) as refused:
        calls.create(None, {"account": "a", **fields}, None)
    assert (refused.value.field, str(refused.value)) == (field, said)


def test_the_path_names_challenge_and_task_and_the_body_does_not() -> None:
    call = SUBMISSIONS.create(None, {"account": "a", "challenge": "c", "task": "t"}, None)
    assert (call.path, call.json) == ("/challenges/c/tasks/t/submissions", {"account": "a"})
