"""What a failure leads to: rules first, then whether it was a disruption, then the restart policy."""

from typing import Any

import pytest

from steelyard.operator.training.model import Place, RestartPolicy, Role, Rule
from steelyard.operator.training.observed.pods import Ended
from steelyard.operator.training.policies.restart import Fall, Verdict, judge
from steelyard.operator.training.simulation.job_simulation import BEGIN


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


MISSING = 'exec: "pythn": executable file not found in $PATH: unknown'


@pytest.mark.parametrize(
    ("fallen", "verdict"),
    [
        pytest.param(fall(128, "StartError", MISSING), Verdict("Fail"), id="containerd"),
        pytest.param(
            fall(128, "StartError", "executable file `pythn` not found in $PATH: No such file or directory"),
            Verdict("Fail"),
            id="crun",
        ),
        pytest.param(
            fall(128, "StartError", "pythn: No such file or directory 'pythn'"), Verdict("Fail"), id="ours"
        ),
        pytest.param(
            fall(127, "ContainerCannotRun", 'exec: "/x": permission denied'), Verdict("Fail"), id="docker"
        ),
        pytest.param(
            fall(128, "StartError", "exec /run.sh: exec format error"), Verdict("Fail"), id="format"
        ),
        pytest.param(fall(126), Verdict("Fail"), id="a shell that may not"),
        pytest.param(fall(127), Verdict("Fail"), id="a shell that finds nothing"),
        pytest.param(fall(127, in_place=1), Verdict("Fail"), id="in place"),
        pytest.param(fall(127, disruption="Deleted"), FREE, id="disrupted"),
        pytest.param(
            fall(128, "StartError", "failed to create shim task: context deadline exceeded"),
            AGAIN,
            id="a node in trouble",
        ),
        pytest.param(
            fall(128, "StartError", "OCI runtime create failed: cgroup: no such file or directory"),
            AGAIN,
            id="a runtime in trouble",
        ),
    ],
)
@pytest.mark.parametrize("restart", ["OnFailure", "ExitCode"])
def test_a_program_that_cannot_be_started_is_not_tried_again(
    fallen: Fall, verdict: Verdict, restart: RestartPolicy
) -> None:
    assert judge(fallen, role(restart), ()) == verdict


def test_who_wants_to_start_a_missing_program_again_may() -> None:
    missing = fall(128, "StartError", MISSING)
    assert judge(missing, role("Always"), ()) == AGAIN
    assert judge(missing, role(), [Rule("Restart", reasons=("StartError",))]) == AGAIN


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
