"""Which failures use up an attempt, which end the step, and how often it is tried."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from steelyard.awake import Sleep, Sleeps
from steelyard.kube.objects import true_condition
from steelyard.kube.resource import EVALUATIONS, JOBS
from steelyard.operator.controller import Controller
from steelyard.operator.edge import Key
from steelyard.operator.simulation import environment as env
from steelyard.operator.simulation.resources import NAMESPACE, make_evaluation
from steelyard.operator.simulation.simulator import BEGIN, GROUPS, Bench
from steelyard.types import Json

Effect = Callable[[Bench, Json], None]


def make_bench() -> Bench:
    """An evaluation that refers to a session, so that it begins with its client; two counted attempts."""
    bench = Bench(Key(EVALUATIONS, NAMESPACE, "e"))
    evaluation = make_evaluation("e", inferenceSessionReference="b1")
    bench.store.create(EVALUATIONS, {**evaluation, "metadata": {"name": "e", "namespace": NAMESPACE}})
    return bench


def settle(bench: Bench) -> None:
    """Look until nothing changes, twice each time."""
    before = None
    while before != bench.state_key():
        before = bench.state_key()
        bench.catch_up(*GROUPS)
        bench.step()
        bench.step()


def befall(bench: Bench, *effects: Effect) -> None:
    settle(bench)
    for effect in effects:
        (job,) = env.jobs(bench)
        effect(bench, job)
        settle(bench)


def names(bench: Bench) -> list[str]:
    return [job["metadata"]["name"] for job in bench.store.objects(JOBS)]


def end(bench: Bench) -> tuple[str, str]:
    resource = bench.resource() or {}
    found = true_condition(resource, "Finished") or {"reason": resource["status"]["reason"], "message": ""}
    return found["reason"], found["message"]


def retryable(bench: Bench, job: Json) -> None:
    env.job_fails(bench, job, 1, '{"code": "Unreachable", "message": "no replica answered"}')


def permanent(bench: Bench, job: Json) -> None:
    env.job_fails(bench, job, 65, '{"code": "BadRequest", "message": "refused", "row": "17"}')


def out_of_memory(bench: Bench, job: Json) -> None:
    env.job_fails(bench, job, 137, "", "OOMKilled")


def session_ended(bench: Bench, job: Json) -> None:
    env.job_fails(bench, job, 65, '{"code": "SessionEnded", "message": "no replica is left"}')


def test_a_failure_worth_a_retry_gets_the_next_attempt() -> None:
    bench = make_bench()
    befall(bench, retryable)
    assert names(bench) == ["e-client-a1", "e-client-a2"]
    assert end(bench)[0] == "Restarted"


def test_the_last_counted_attempt_fails_the_evaluation() -> None:
    bench = make_bench()
    befall(bench, retryable, retryable)
    assert names(bench) == ["e-client-a1", "e-client-a2"]
    assert end(bench) == ("ClientFailed", "Unreachable: no replica answered")


@pytest.mark.parametrize(
    ("effect", "reason", "word"),
    [
        pytest.param(permanent, "BadRequest", "row 17", id="exit 65"),
        pytest.param(out_of_memory, "ClientFailed", "OOMKilled", id="out of memory"),
        pytest.param(session_ended, "SessionEnded", "no replica is left", id="the session has ended"),
    ],
)
def test_a_failure_for_good_ends_at_once(effect: Effect, reason: str, word: str) -> None:
    bench = make_bench()
    befall(bench, effect)
    assert names(bench) == ["e-client-a1"]
    assert end(bench)[0] == reason
    assert word in end(bench)[1]


def test_disruptions_do_not_use_up_attempts_but_the_deadline_ends_them() -> None:
    bench = make_bench()
    befall(bench, *[env.job_evicted] * 5, env.remove)
    assert len(names(bench)) == 6  # the one that was deleted is gone
    assert end(bench)[0] == "Restarted"
    bench.now = BEGIN + timedelta(seconds=7200)
    befall(bench, env.job_evicted)
    assert end(bench)[0] == "Timeout"


def test_a_night_asleep_uses_up_no_deadline() -> None:
    bench = make_bench()
    woke = BEGIN + timedelta(seconds=30000)
    sleeps = Sleeps((Sleep(woke, 29000.0),))
    bench.controller = Controller(bench.cluster, bench.caches, sleeps=lambda: sleeps)
    befall(bench, env.job_evicted)
    bench.now = woke
    befall(bench, env.job_evicted)
    assert end(bench)[0] == "Restarted"
    bench.now = BEGIN + timedelta(seconds=29000 + 7200)
    befall(bench, env.job_evicted)
    assert end(bench)[0] == "Timeout"


def test_a_job_on_a_lost_node_is_gone_before_the_next_one_comes() -> None:
    bench = make_bench()
    befall(bench, lambda bench, job: env.job_node_lost(bench, job, 120))
    assert names(bench) == ["e-client-a2"]
    assert bench.resource() is not None
    resource = bench.resource() or {}
    assert resource["status"]["attempts"]["client"]["counted"] == 0


def test_an_image_that_stays_away_fails_and_leaves_no_job() -> None:
    bench = make_bench()
    befall(bench, env.job_image_missing)
    bench.now += timedelta(minutes=10)
    settle(bench)
    assert end(bench)[0] == "BadImage"
    assert names(bench) == []


def test_verification_has_attempts_and_a_clock_of_its_own() -> None:
    bench = make_bench()
    befall(bench, env.job_succeeds)
    assert names(bench) == ["e-client-a1", "e-verify-a1"]
    befall(bench, lambda bench, job: env.job_fails(bench, job, 65, '{"code": "MissingRows", "message": "7"}'))
    assert end(bench) == ("OutputInvalid", "MissingRows: 7")
