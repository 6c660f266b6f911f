"""Attempts: which failures use one up, which end the step, and how often it is tried."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from steelyard.operator.controller import Controller
from steelyard.operator.edge import Key
from steelyard.operator.names import PLATFORM_ENTITY
from steelyard.operator.simulation import environment as env
from steelyard.operator.simulation.lagging_caches import SETTINGS
from steelyard.operator.simulation.resources import (
    NAMESPACE,
    make_analysis,
    make_audit,
    make_data_source,
    make_dataset,
    make_evaluation,
    make_model,
    make_report,
)
from steelyard.operator.simulation.simulator import BEGIN, GROUPS, Simulator
from steelyard_common.awake import Sleep, Sleeps
from steelyard_common.types import Json
from steelyard_kube.objects import true_condition
from steelyard_kube.resource import JOBS, find_resource
from steelyard_kube.store import Key as StoreKey
from steelyard_schema.resources import RESOURCES

Effect = Callable[[Simulator, Json], None]


def make_simulator(resource: Json | None = None) -> Simulator:
    """An evaluation that refers to a session, so that it begins with its client; two counted attempts."""
    resource = resource or make_evaluation("e", inferenceSessionReference="b1")
    kind = find_resource(resource)
    simulator = Simulator(Key(kind, NAMESPACE, "e"))
    simulator.store.create(kind, {**resource, "metadata": {"name": "e", "namespace": NAMESPACE}})
    return simulator


def settle(simulator: Simulator) -> None:
    """Reconcile until nothing changes, twice each time."""
    before = None
    while before != simulator.state_key():
        before = simulator.state_key()
        simulator.catch_up(*GROUPS)
        simulator.step()
        simulator.step()


def befall(simulator: Simulator, *effects: Effect) -> None:
    settle(simulator)
    for effect in effects:
        (job,) = env.jobs(simulator)
        effect(simulator, job)
        settle(simulator)


def names(simulator: Simulator) -> list[str]:
    return [job["metadata"]["name"] for job in simulator.store.objects(JOBS)]


def end(simulator: Simulator) -> tuple[str, str]:
    resource = simulator.resource() or {}
    finished = true_condition(resource, "Finished") or {"reason": resource["status"]["reason"], "message": ""}
    return finished["reason"], finished["message"]


def retryable(simulator: Simulator, job: Json) -> None:
    env.job_fails(simulator, job, 1, '{"code": "Unreachable", "message": "no replica answered"}')


def permanent(simulator: Simulator, job: Json) -> None:
    env.job_fails(simulator, job, 65, '{"code": "BadRequest", "message": "refused", "row": "17"}')


def out_of_memory(simulator: Simulator, job: Json) -> None:
    env.job_fails(simulator, job, 137, "", "OOMKilled")


def session_ended(simulator: Simulator, job: Json) -> None:
    env.job_fails(simulator, job, 65, '{"code": "SessionEnded", "message": "no replica is left"}')


def changed_input(simulator: Simulator, job: Json) -> None:
    env.job_fails(simulator, job, 65, '{"code": "DigestMismatch", "message": "part-0 is not what was kept"}')


STEPS: dict[str, Callable[[], Json]] = {
    "Analysis": lambda: make_analysis("e"),
    "Audit": lambda: make_audit("e"),
    "Dataset": lambda: make_dataset("e"),
    "DataSource": lambda: make_data_source("e"),
    "Evaluation": lambda: make_evaluation("e", inferenceSessionReference="b1"),
    "Model": lambda: make_model("e"),
    "Report": lambda: make_report("e"),
}


@pytest.mark.parametrize("kind", STEPS)
def test_a_changed_input_is_the_reason_whatever_step_met_it(kind: str) -> None:
    simulator = make_simulator(STEPS[kind]())
    settle(simulator)
    (job,) = simulator.store.objects(JOBS)
    changed_input(simulator, job)
    settle(simulator)
    assert end(simulator) == ("DigestMismatch", "part-0 is not what was kept")


def test_every_kind_with_a_step_is_tried_with_a_changed_input() -> None:
    without_steps = {"InferenceService", "InferenceSession"}
    assert STEPS.keys() == set(RESOURCES) - without_steps


def test_a_failure_worth_a_retry_gets_the_next_attempt() -> None:
    simulator = make_simulator()
    befall(simulator, retryable)
    assert names(simulator) == ["e-client-a1", "e-client-a2"]
    assert end(simulator)[0] == "Restarted"


def test_the_last_counted_attempt_fails_the_evaluation() -> None:
    simulator = make_simulator()
    befall(simulator, retryable, retryable)
    assert names(simulator) == ["e-client-a1", "e-client-a2"]
    assert end(simulator) == ("ClientFailed", "Unreachable: no replica answered")


@pytest.mark.parametrize(
    ("effect", "reason", "word"),
    [
        pytest.param(permanent, "BadRequest", "row 17", id="exit 65"),
        pytest.param(out_of_memory, "ClientFailed", "OOMKilled", id="out of memory"),
        pytest.param(session_ended, "SessionEnded", "no replica is left", id="the session has ended"),
    ],
)
def test_a_failure_for_good_ends_at_once(effect: Effect, reason: str, word: str) -> None:
    simulator = make_simulator()
    befall(simulator, effect)
    assert names(simulator) == ["e-client-a1"]
    assert end(simulator)[0] == reason
    assert word in end(simulator)[1]


def test_disruptions_do_not_use_up_attempts_but_the_deadline_ends_them() -> None:
    simulator = make_simulator()
    befall(simulator, *[env.job_evicted] * 5, env.remove)
    assert len(names(simulator)) == 6  # the one that was deleted is gone
    assert end(simulator)[0] == "Restarted"
    simulator.now = BEGIN + timedelta(seconds=7200)
    befall(simulator, env.job_evicted)
    assert end(simulator)[0] == "Timeout"


def test_a_night_asleep_uses_up_no_deadline() -> None:
    simulator = make_simulator()
    woke = BEGIN + timedelta(seconds=30000)
    sleeps = Sleeps((Sleep(woke, 29000.0),))
    simulator.controller = Controller(simulator.cluster, simulator.caches, sleeps=lambda: sleeps)
    befall(simulator, env.job_evicted)
    simulator.now = woke
    befall(simulator, env.job_evicted)
    assert end(simulator)[0] == "Restarted"
    simulator.now = BEGIN + timedelta(seconds=29000 + 7200)
    befall(simulator, env.job_evicted)
    assert end(simulator)[0] == "Timeout"


def test_a_job_on_a_lost_node_is_gone_before_the_next_one_comes() -> None:
    simulator = make_simulator()
    befall(simulator, lambda simulator, job: env.job_node_lost(simulator, job, 120))
    assert names(simulator) == ["e-client-a2"]
    assert simulator.resource() is not None
    resource = simulator.resource() or {}
    assert resource["status"]["attempts"]["client"]["counted"] == 0


def test_an_image_that_stays_away_fails_and_leaves_no_job() -> None:
    simulator = make_simulator()
    befall(simulator, env.job_image_missing)
    simulator.now += timedelta(minutes=10)
    settle(simulator)
    assert end(simulator)[0] == "BadImage"
    assert names(simulator) == []


def test_verification_has_attempts_and_a_clock_of_its_own() -> None:
    simulator = make_simulator()
    befall(simulator, env.job_succeeds)
    assert names(simulator) == ["e-client-a1", "e-verify-a1"]
    befall(
        simulator,
        lambda simulator, job: env.job_fails(simulator, job, 65, '{"code": "MissingRows", "message": "7"}'),
    )
    assert end(simulator) == ("OutputInvalid", "MissingRows: 7")


# ---- pauses, and inputs that are not there yet


def missing_input(simulator: Simulator, job: Json) -> None:
    env.job_fails(
        simulator, job, 1, '{"code": "InputMissing", "message": "there is no object r1/report.json"}'
    )


def with_pauses(simulator: Simulator, **settings: Any) -> Simulator:
    """Let the operator wait between attempts, as it does by default."""
    simulator.caches.chosen = SETTINGS.model_copy(update={"retry_seconds": 10.0, **settings})
    return simulator


def pass_pauses(simulator: Simulator, effect: Effect, times: int) -> list[int]:
    """Let each attempt meet an effect; return the seconds for which the next one was awaited."""
    pauses = []
    for _ in range(times):
        settle(simulator)
        before = names(simulator)
        befall(simulator, effect)
        begin = simulator.now
        while names(simulator) == before and simulator.now < begin + timedelta(hours=1):
            simulator.now += timedelta(seconds=1)
            settle(simulator)
        pauses.append(round((simulator.now - begin).total_seconds()))
    return pauses


def test_a_failure_is_tried_again_after_pauses_that_double() -> None:
    simulator = with_pauses(make_simulator(), max_attempts=4)
    assert pass_pauses(simulator, retryable, 3) == [10, 20, 40]


def test_a_pause_says_why_and_until_when() -> None:
    simulator = with_pauses(make_simulator())
    befall(simulator, retryable)
    assert end(simulator)[0] == "ClientRunning"
    resource = simulator.resource() or {}
    condition = true_condition(resource, "Progressing") or {}
    assert condition["message"].startswith("no replica answered; it is tried again at 2")


@pytest.mark.parametrize("kind", ["Analysis", "Audit", "Evaluation", "Model", "Report"])
def test_an_input_that_is_not_there_yet_is_waited_for_and_uses_no_attempt(kind: str) -> None:
    simulator = with_pauses(make_simulator(STEPS[kind]()))
    assert pass_pauses(simulator, missing_input, 5) == [10, 20, 40, 80, 160]
    befall(simulator, missing_input)
    resource = simulator.resource() or {}
    condition = true_condition(resource, "Progressing") or {}
    assert condition["reason"] == "WaitingForInput"
    assert condition["message"].startswith("there is no object r1/report.json; it is tried again at ")
    assert {entry["counted"] for entry in resource["status"]["attempts"].values()} == {0}


def test_waiting_for_an_input_takes_nothing_of_the_steps_time_and_ends() -> None:
    simulator = with_pauses(make_simulator(STEPS["Audit"]()), input_seconds=20_000)
    settle(simulator)
    simulator.now += timedelta(seconds=10_000)
    befall(simulator, missing_input)
    simulator.now += timedelta(seconds=10)
    settle(simulator)
    (job,) = env.jobs(simulator)
    assert job["spec"]["activeDeadlineSeconds"] == SETTINGS.step_deadline_seconds
    simulator.now = BEGIN + timedelta(seconds=20_000)
    befall(simulator, missing_input)
    simulator.now += timedelta(minutes=10)
    settle(simulator)
    assert end(simulator) == ("Timeout", "waited for 20000 s; last: there is no object r1/report.json")


def test_an_entity_of_the_platform_has_its_inputs_or_has_lost_them() -> None:
    audit = make_audit("e")
    simulator = make_simulator(audit)
    simulator.store.update(
        StoreKey(find_resource(audit), NAMESPACE, "e"),
        lambda old: {**old, "metadata": {**old["metadata"], "labels": {PLATFORM_ENTITY: "1" * 32}}},
    )
    befall(simulator, missing_input, missing_input)
    assert end(simulator) == ("StepFailed", "InputMissing: there is no object r1/report.json")
