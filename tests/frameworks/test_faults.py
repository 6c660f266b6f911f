"""Tests of what counts as a fault of training; they need no framework."""

from dataclasses import replace

import pytest

from tests.frameworks.examples import EXAMPLES
from tests.frameworks.training import Course, faults

MIRRORED, WITH_SERVER = (
    next(example for example in EXAMPLES if example.name == f"tensorflow-{kind}")
    for kind in ("mirrored", "ps")
)
BEFORE = {"digits-tensorflow-mirrored-worker-0": "a", "digits-tensorflow-mirrored-worker-1": "b"}
GOOD = Course(
    first=0.6,
    last=0.95,
    first_loss=1.8,
    last_loss=0.02,
    killed=5.0,
    step=20,
    resumed=9.0,
    resumed_at=21,
    ended=15.0,
    before=BEFORE,
    after={"digits-tensorflow-mirrored-worker-0": "c", "digits-tensorflow-mirrored-worker-1": "d"},
    status={
        "restarts": 1,
        "results": {"accuracy": 0.95},
        "conditions": [{"type": "Succeeded", "status": "True"}],
    },
)


def test_a_whole_job_that_went_on_from_its_checkpoint_is_right() -> None:
    assert faults(MIRRORED, "worker-1", GOOD) == []


@pytest.mark.parametrize(
    ("course", "fault"),
    [
        (replace(GOOD, status={**GOOD.status, "conditions": []}), "did not succeed"),
        (replace(GOOD, status={**GOOD.status, "results": None}), "the result is None"),
        (replace(GOOD, killed=None), "before a replica could be killed"),
        (replace(GOOD, last=0.7, status={**GOOD.status, "results": {"accuracy": 0.7}}), "below 0.93"),
        (replace(GOOD, first=0.95), "accuracy did not rise"),
        (replace(GOOD, last_loss=1.9), "loss did not fall"),
        (replace(GOOD, status={**GOOD.status, "restarts": 2}), "2 restarts"),
        (replace(GOOD, after={**GOOD.after, "digits-tensorflow-mirrored-worker-0": "a"}), "new Pods"),
        (replace(GOOD, resumed_at=1), "no checkpoint"),
    ],
)
def test_what_is_wrong_is_said(course: Course, fault: str) -> None:
    (said,) = faults(MIRRORED, "worker-1", course)
    assert fault in said


def test_with_a_parameter_server_a_worker_takes_nothing_with_it() -> None:
    kept = replace(GOOD, after=BEFORE)
    assert faults(WITH_SERVER, "worker-1", kept) == []
    (said,) = faults(WITH_SERVER, "worker-1", GOOD)
    assert "new Pods" in said
