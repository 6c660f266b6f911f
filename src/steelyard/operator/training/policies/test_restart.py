"""Reactions to failures: rules first, then whether it was a disruption, then the restart policy."""

from typing import Any

import pytest

from steelyard.operator.training.model import ReplicaId, RestartPolicy, Role, Rule, Scope
from steelyard.operator.training.observed.pods import Termination
from steelyard.operator.training.policies.restart import FailureResponse, ReplicaFailure, response_to
from steelyard.operator.training.simulation.job_simulation import BEGIN


def role(restart: RestartPolicy = "Never", scope: Scope = "ReplicaType") -> Role:
    return Role("Worker", 2, {}, restart, scope)


def failure(code: int = 1, reason: str = "Error", message: str = "", **more: Any) -> ReplicaFailure:
    return ReplicaFailure(
        ReplicaId("Worker", 0), 0, "job-worker-0", "uid", BEGIN, Termination(code, reason, message), **more
    )


AGAIN = FailureResponse("Restart", scope="ReplicaType")
FREE = FailureResponse("Restart", counted=False, scope="ReplicaType")


@pytest.mark.parametrize(
    ("failed", "rules", "response"),
    [
        pytest.param(failure(3), [Rule("Restart", exit_codes=(3,))], AGAIN, id="an exit code"),
        pytest.param(
            failure(4), [Rule("Restart", exit_codes=(3,))], FailureResponse("Fail"), id="another exit code"
        ),
        pytest.param(failure(137), [Rule("Restart", signals=(9,))], AGAIN, id="a signal"),
        pytest.param(
            failure(137, "OOMKilled"), [Rule("Restart", reasons=("OOMKilled",))], AGAIN, id="a reason"
        ),
        pytest.param(
            failure(disruption="Evicted"),
            [Rule("Fail", reasons=("Evicted",))],
            FailureResponse("Fail"),
            id="an eviction",
        ),
        pytest.param(
            failure(message="RuntimeError: NCCL timeout"),
            [Rule("Restart", pattern=r"NCCL .*out")],
            AGAIN,
            id="words",
        ),
        pytest.param(
            failure(), [Rule("Restart", roles=("Server",))], FailureResponse("Fail"), id="another's type"
        ),
        pytest.param(
            failure(3),
            [Rule("Restart", exit_codes=(3,), reasons=("OOMKilled",))],
            FailureResponse("Fail"),
            id="all must match",
        ),
        pytest.param(failure(), [Rule("Restart", counted=False)], FREE, id="not counted"),
        pytest.param(
            failure(),
            [Rule("Restart", scope="Job")],
            FailureResponse("Restart", scope="Job"),
            id="the rule's scope",
        ),
        pytest.param(
            failure(),
            [Rule("Ignore"), Rule("Restart")],
            FailureResponse("Ignore"),
            id="the first that matches",
        ),
        pytest.param(
            failure(in_place=1),
            [],
            FailureResponse("Restart", scope="ReplicaType"),
            id="in place, and its peers",
        ),
        pytest.param(
            failure(in_place=1),
            [Rule("Restart", scope="Job")],
            FailureResponse("Restart", scope="Job"),
            id="in place, and more",
        ),
        pytest.param(
            failure(3, in_place=1),
            [Rule("Fail", exit_codes=(3,))],
            FailureResponse("Fail"),
            id="in place, for good",
        ),
        pytest.param(failure(disruption="Deleted"), [], FREE, id="a disruption"),
    ],
)
def test_the_first_rule_that_matches_decides(
    failed: ReplicaFailure, rules: list[Rule], response: FailureResponse
) -> None:
    assert response_to(failed, role(), rules) == response


def test_the_operator_restarts_nothing_where_the_kubelet_has_restarted_all() -> None:
    assert response_to(failure(in_place=1), role(scope="Pod"), []) == FailureResponse("Restart")


@pytest.mark.parametrize(
    ("restart", "code", "response"),
    [
        ("Always", 1, AGAIN),
        ("OnFailure", 1, AGAIN),
        ("ExitCode", 127, FailureResponse("Fail")),
        ("ExitCode", 128, AGAIN),
        ("ExitCode", 0xBEEF, AGAIN),
        ("Never", 137, FailureResponse("Fail")),
    ],
)
def test_else_the_restart_policy_does(restart: RestartPolicy, code: int, response: FailureResponse) -> None:
    assert response_to(failure(code), role(restart), ()) == response


MISSING = 'exec: "pythn": executable file not found in $PATH: unknown'


@pytest.mark.parametrize(
    ("failed", "response"),
    [
        pytest.param(failure(128, "StartError", MISSING), FailureResponse("Fail"), id="containerd"),
        pytest.param(
            failure(
                128, "StartError", "executable file `pythn` not found in $PATH: No such file or directory"
            ),
            FailureResponse("Fail"),
            id="crun",
        ),
        pytest.param(
            failure(128, "StartError", "pythn: No such file or directory 'pythn'"),
            FailureResponse("Fail"),
            id="ours",
        ),
        pytest.param(
            failure(127, "ContainerCannotRun", 'exec: "/x": permission denied'),
            FailureResponse("Fail"),
            id="docker",
        ),
        pytest.param(
            failure(128, "StartError", "exec /run.sh: exec format error"),
            FailureResponse("Fail"),
            id="format",
        ),
        pytest.param(failure(126), FailureResponse("Fail"), id="a shell that may not"),
        pytest.param(failure(127), FailureResponse("Fail"), id="a shell that finds nothing"),
        pytest.param(failure(127, in_place=1), FailureResponse("Fail"), id="in place"),
        pytest.param(failure(127, disruption="Deleted"), FREE, id="disrupted"),
        pytest.param(
            failure(128, "StartError", "failed to create shim task: context deadline exceeded"),
            AGAIN,
            id="a node in trouble",
        ),
        pytest.param(
            failure(128, "StartError", "OCI runtime create failed: cgroup: no such file or directory"),
            AGAIN,
            id="a runtime in trouble",
        ),
    ],
)
@pytest.mark.parametrize("restart", ["OnFailure", "ExitCode"])
def test_a_program_that_cannot_be_started_is_not_tried_again(
    failed: ReplicaFailure, response: FailureResponse, restart: RestartPolicy
) -> None:
    assert response_to(failed, role(restart), ()) == response


def test_who_wants_to_start_a_missing_program_again_may() -> None:
    missing = failure(128, "StartError", MISSING)
    assert response_to(missing, role("Always"), ()) == AGAIN
    assert response_to(missing, role(), [Rule("Restart", reasons=("StartError",))]) == AGAIN


@pytest.mark.parametrize(
    ("code", "signal"), [(0, None), (1, None), (128, None), (137, 9), (143, 15), (255, None)]
)
def test_an_exit_code_shows_the_signal(code: int, signal: int | None) -> None:
    assert Termination(code).signal == signal


def test_no_expression_takes_for_ever() -> None:
    """Searching this one by trying all ways takes longer than the universe is old."""
    assert response_to(
        failure(message="a" * 4000 + "b"), role(), [Rule("Restart", pattern="(a+)+$")]
    ) == FailureResponse("Fail")
