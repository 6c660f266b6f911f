"""A training job, from every state that a bounded search reaches: whatever happens, it ends as it should."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from steelyard.operator.exploration import Search
from steelyard.operator.training.doubles import make_job
from steelyard.operator.training.world import JobWorld

FAULTS = 3
FEW, SOAK = 200, 10_000
"""States of each world; with so few, everything that may happen still happens in one of them."""


@dataclass(frozen=True)
class Case:
    """A world, and where its search begins."""

    name: str
    make: Callable[[], JobWorld]
    after: tuple[str, ...] = ()


def pair() -> JobWorld:
    """A leader and one that works for it, which start again together."""
    return JobWorld(
        make_job(replicas={"Master": 1, "Worker": 1}, restart="ExitCode", policy={"backoffLimit": 1})
    )


def remembering() -> JobWorld:
    """The same, and an operator that knows its own writes before its watches tell of them."""
    job = make_job(replicas={"Master": 1, "Worker": 1}, restart="OnFailure", policy={"backoffLimit": 2})
    return JobWorld(job, remembers=True)


def alone() -> JobWorld:
    """Replicas that the kubelet starts again, each by itself; and an end of all things."""
    policy = {
        "backoffLimit": 2,
        "activeDeadlineSeconds": 600,
        "ttlSecondsAfterFinished": 60,
        "cleanPodPolicy": "Running",
    }
    scope = {"steelyard/restart-scope": "Pod"}
    return JobWorld(make_job(replicas={"Master": 1, "Worker": 1}, annotations=scope, policy=policy))


def suspended() -> JobWorld:
    """As a queue makes it; without a leader."""
    return JobWorld(
        make_job(replicas={"Worker": 1}, restart="Never", policy={"suspend": True, "cleanPodPolicy": "All"})
    )


STARTED = (
    "operator looks",
    "caches catch up",
    "operator looks",
    "caches catch up",
    "Pod starts",
    "Pod starts",
)
SEEN = ("caches catch up", "operator looks", "caches catch up", "operator looks")
LOST = (
    "caches catch up",
    "operator looks",
    "time passes",
    "operator looks",
    "caches catch up",
    "operator looks",
)
SCALED = ("scaled", *SEEN, "caches catch up", "Pod starts", "scaled", "caches catch up", "operator looks")

CASES = [
    Case("a pair", pair),
    Case("a pair at work", pair, STARTED),
    Case("a pair that has just failed", pair, (*STARTED, "Pod fails, worth a retry", *SEEN)),
    Case("a pair on a lost node", pair, (*STARTED, "Pod's node is lost", *LOST)),
    Case("a pair that is suspended", pair, (*STARTED, "suspended", *SEEN)),
    Case("a pair of which more, then less is asked", pair, (*STARTED, *SCALED)),
    Case("a pair after one of its name", pair, (*STARTED, "made again")),
    Case("a pair whose operator knows its writes", remembering),
    Case("replicas for themselves", alone, STARTED),
    Case("suspended from the start", suspended),
]
EACH = [pytest.param(case, id=case.name.replace(" ", "-")) for case in CASES]


def explore(case: Case, limit: int, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """What happened in the search."""
    with capsys.disabled():
        print(f"\n{case.name}: ", end="")
        found = Search(case.make(), limit=limit, faults=FAULTS, after=case.after).run()
        print(found, end="")
    return set(found.taken)


def test_whatever_happens_it_ends_where_it_should(capsys: pytest.CaptureFixture[str]) -> None:
    taken = set[str]().union(*(explore(case, FEW, capsys) for case in CASES))
    assert JobWorld.transitions - taken == set(), "the search never looked at these"


@pytest.mark.soak
@pytest.mark.parametrize("case", EACH)
def test_whatever_happens_at_length(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    explore(case, SOAK, capsys)
