"""Tests of the status of runs and submissions."""

import pytest

from steelyard_schema.answers import Status
from steelyard_schema.run_status import status_of_run, status_of_submission
from steelyard_schema.status import ENDINGS, statuses

FAILED = ("FailedDependency", "the node b is Failed")
NO_REASON = (None, None)
ENDED = ("TerminateCommand", None)
RUNS = {
    "nothing has begun": (("Created", "Created"), "Created", NO_REASON),
    "one runs": (("Created", "Admitted"), "Admitted", NO_REASON),
    "one has ended": (("Created", "Complete"), "Admitted", NO_REASON),
    "one has failed, and another runs": (("Admitted", "Failed"), "Admitted", FAILED),
    "one has failed, and another waits": (("Created", "Failed"), "Admitted", FAILED),
    "one has failed, and all have ended": (("Complete", "Failed"), "Failed", FAILED),
    "all have succeeded": (("Complete", "Complete"), "Complete", NO_REASON),
    "one was terminated": (("Complete", "Terminated"), "Terminated", ENDED),
    "one was deleted": (("Deleted", "Complete"), "Terminated", ENDED),
    "one was terminated, and another has failed for it": (("Terminated", "Failed"), "Terminated", ENDED),
    "one was terminated, and another runs": (("Terminated", "Admitted"), "Admitted", NO_REASON),
}


@pytest.mark.parametrize(("nodes", "status", "why"), RUNS.values(), ids=RUNS)
def test_a_run_ends_as_its_workflows_do(
    nodes: tuple[str, str], status: str, why: tuple[str | None, str | None]
) -> None:
    result = status_of_run(dict(zip("ab", nodes, strict=True)))
    assert (result.status, result.reason, result.message) == (status, *why)


SUBMISSIONS = {
    "Created": Status(status="Created"),
    "Admitted": Status(status="Admitted", reason="R", message="m"),
    "Complete": Status(status="Complete"),
    "Failed": Status(status="Error", reason="R", message="m"),
    "Terminated": Status(status="Terminated", reason="R", message="m"),
    "Deleted": Status(status="Terminated", reason="TerminateCommand"),
}


@pytest.mark.parametrize(("run", "submission"), SUBMISSIONS.items(), ids=SUBMISSIONS)
def test_a_submission_ends_as_its_run_does(run: str, submission: Status) -> None:
    has_reason = run in {"Admitted", "Failed", "Terminated"}
    given = Status(status=run, reason="R" if has_reason else None, message="m" if has_reason else None)
    assert status_of_submission(given) == submission
    assert submission.status in statuses("Submission")


def test_a_run_has_every_status_that_its_submission_may_follow() -> None:
    assert set(statuses("PipelineRun")) == set(SUBMISSIONS)
    assert ENDINGS["Submission"] == ("Complete", "Error")
