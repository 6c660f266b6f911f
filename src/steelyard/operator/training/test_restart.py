"""What a failure leads to: rules first, then whether it was a disruption, then the restart policy."""

from typing import Any

import pytest

from steelyard.operator.training.doubles import BEGIN
from steelyard.operator.training.model import Place, RestartPolicy, Role, Rule
from steelyard.operator.training.restart import Fall, Verdict, judge
from steelyard.operator.training.seen import Ended


def role(restart: RestartPolicy = "Never") -> Role:
    return Role("Worker", 2, {}, restart, "ReplicaType")


def fall(code: int = 1, reason: str = "Error", message: str = "", **more: Any) -> Fall:
    return Fall(Place("Worker", 0), 0, "job-worker-0", "uid", BEGIN, Ended(code, reason, message), **more)


AGAIN = Verdict("Restart", scope="ReplicaType")
FREE = Verdict("Restart", counted=False, scope="ReplicaType")


@pytest.mark.parametrize(
    ("fallen", "rules", "verdict"),
    [
        pytest.param(fall(3), [Rule("Restart", exit_codes=(3,))], AGAIN, id="an exit code"),
        pytest.param(fall(4), [Rule("Restart", exit_codes=(3,))], Verdict("Fail"), id="another exit code"),
        pytest.param(fall(137), [Rule("Restart", signals=(9,))], AGAIN, id="a signal"),
        pytest.param(fall(137, "OOMKilled"), [Rule("Restart", reasons=("OOMKilled",))], AGAIN, id="a reason"),
        pytest.param(
            fall(disruption="Evicted"),
            [Rule("Fail", reasons=("Evicted",))],
            Verdict("Fail"),
            id="an eviction",
        ),
        pytest.param(
            fall(message="RuntimeError: NCCL timeout"),
            [Rule("Restart", pattern=r"NCCL .*out")],
            AGAIN,
            id="words",
        ),
        pytest.param(fall(), [Rule("Restart", roles=("Server",))], Verdict("Fail"), id="another's type"),
        pytest.param(
            fall(3),
            [Rule("Restart", exit_codes=(3,), reasons=("OOMKilled",))],
            Verdict("Fail"),
            id="all must match",
        ),
        pytest.param(fall(), [Rule("Restart", counted=False)], FREE, id="not counted"),
        pytest.param(
            fall(), [Rule("Restart", scope="Job")], Verdict("Restart", scope="Job"), id="the rule's scope"
        ),
        pytest.param(
            fall(), [Rule("Ignore"), Rule("Restart")], Verdict("Ignore"), id="the first that matches"
        ),
        pytest.param(fall(in_place=1), [], Verdict("Restart"), id="in place already"),
        pytest.param(
            fall(in_place=1),
            [Rule("Restart", scope="Job")],
            Verdict("Restart", scope="Job"),
            id="in place, and more",
        ),
        pytest.param(
            fall(3, in_place=1), [Rule("Fail", exit_codes=(3,))], Verdict("Fail"), id="in place, for good"
        ),
        pytest.param(fall(disruption="Deleted"), [], FREE, id="a disruption"),
    ],
)
def test_the_first_rule_that_matches_decides(fallen: Fall, rules: list[Rule], verdict: Verdict) -> None:
    assert judge(fallen, role(), rules) == verdict


@pytest.mark.parametrize(
    ("restart", "code", "verdict"),
    [
        ("Always", 1, AGAIN),
        ("OnFailure", 1, AGAIN),
        ("ExitCode", 127, Verdict("Fail")),
        ("ExitCode", 128, AGAIN),
        ("ExitCode", 0xBEEF, AGAIN),
        ("Never", 137, Verdict("Fail")),
    ],
)
def test_else_the_restart_policy_does(restart: RestartPolicy, code: int, verdict: Verdict) -> None:
    assert judge(fall(code), role(restart), ()) == verdict


@pytest.mark.parametrize(
    ("code", "signal"), [(0, None), (1, None), (128, None), (137, 9), (143, 15), (255, None)]
)
def test_an_exit_code_tells_the_signal(code: int, signal: int | None) -> None:
    assert Ended(code).signal == signal


def test_no_expression_takes_for_ever() -> None:
    """Searching this one by trying all ways takes longer than the universe is old."""
    assert judge(fall(message="a" * 4000 + "b"), role(), [Rule("Restart", pattern="(a+)+$")]) == Verdict(
        "Fail"
    )
