"""Selection of planted bugs, and how `make planted` judges and reports them."""

from pathlib import Path

import pytest

from tests.planted.__main__ import progress, select, why_it_survives
from tests.planted.bug import Bug
from tests.planted.worker import Outcome

QUEUE = Bug("queue-loses-an-add", ("src/kube/test_queue.py::test_add",), Path("src/kube/queue.py"), "", ())
LEASE = Bug("lease-for-ever", ("tests/lease/test_lease.py",), Path("src/kube/lease.py"), "", ())


@pytest.mark.parametrize(
    ("patterns", "changed", "selected"),
    [
        ([], None, [QUEUE, LEASE]),
        (["queue-*"], None, [QUEUE]),
        (["src/kube/*"], None, [QUEUE, LEASE]),
        (["*::test_add", "lease-*"], None, [QUEUE, LEASE]),
        ([], ["src/kube/lease.py"], [LEASE]),
        ([], ["src/kube/test_queue.py"], [QUEUE]),
        (["queue-*"], ["src/kube/lease.py"], []),
        ([], [], []),
    ],
)
def test_which_bugs_are_tried(patterns: list[str], changed: list[str] | None, selected: list[Bug]) -> None:
    assert select([QUEUE, LEASE], patterns, changed) == selected


@pytest.mark.parametrize(
    ("bug", "outcome", "failing", "reason"),
    [
        (QUEUE, Outcome(1), [], ""),
        (QUEUE, Outcome(0), [], "passed in spite of it"),
        (QUEUE, Outcome(-1), [], "did not end in time"),
        (QUEUE, Outcome(2, output="no module"), [], "pytest exited 2: no module"),
        (QUEUE, Outcome(1), ["src/kube/test_queue.py::test_add[two]"], "fails without the bug"),
        (QUEUE, Outcome(1), ["src/kube/test_queue.py::test_add_again"], ""),
        (LEASE, Outcome(1), ["tests/lease/test_lease.py::test_end"], "fails without the bug"),
    ],
)
def test_what_counts_as_found(bug: Bug, outcome: Outcome, failing: list[str], reason: str) -> None:
    said = why_it_survives(bug, outcome, failing)
    assert reason in said
    assert bool(said) is bool(reason)


def test_progress_estimates_the_rest_from_what_is_done() -> None:
    assert progress(10, 40, 1, 100.0) == "[10/40, 1 not found, 5:00 left]"
