"""Two operators as they run, over slow and broken calls and crashes, in worlds where all may happen: seeded runs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.exploration import Move
from steelyard.operator.simulation.lagging_caches import SETTINGS, peek
from steelyard.operator.simulation.resources import make_evaluation, make_session
from steelyard.operator.simulation.scenarios import EvaluationScenario, StepScenario
from steelyard.operator.simulation.session_scenario import (
    SessionScenario,
    deployments,
    replica_moves,
    replicas_start,
)
from steelyard.operator.simulation.simulator import Simulator, State
from steelyard.operator.training.simulation import job_simulation as doubles
from steelyard_common.types import Json
from steelyard_kube.resource import INFERENCE_SESSIONS
from steelyard_kube.store import Key
from tests.exploration import test_workflows, training_cases, virtual_time
from tests.exploration.live import LiveScenario, Run

FEW, MANY = 6, 200
"""Runs of each world in CI and in `make soak`."""
FAULTS = 12


class WholeEvaluationScenario(EvaluationScenario):
    """An evaluation whose session the operator runs as well: what happens, happens to the session's replicas."""

    def surroundings(self, simulator: Simulator) -> list[Move]:
        replicas = [
            move for deployment in deployments(simulator) for move in replica_moves(simulator, deployment)
        ]
        return StepScenario.surroundings(self, simulator) + replicas

    def find_protected(self, before: State, simulator: Simulator, changed: set[Key]) -> set[Key]:
        """The status of every session is the operator's to write, also of one with another owner."""
        old, new = before.objects.objects, simulator.store.all_objects
        written = {
            key
            for key in changed & old.keys() & new.keys()
            if key.resource == INFERENCE_SESSIONS and _but_status(old[key].raw) == _but_status(new[key].raw)
        }
        return changed - written

    def progress(self, simulator: Simulator) -> bool:
        return replicas_start(simulator) or StepScenario.progress(self, simulator)

    def failures(self, facts: frozenset[str]) -> set[str]:
        session = {"RunnerFailed", "BoundToAllAddresses", "late", "foreign"} & facts
        return super().failures(facts) | ({"SessionFailed"} if session else set())


def _but_status(raw: bytes) -> Json:
    return {name: value for name, value in peek(raw).items() if name != "status"}


def expiring() -> SessionScenario:
    """Return a session that expires when what may happen has happened, the deadline of its start included.

    Each hour of virtual time until then costs as much as three other runs.
    """
    return SessionScenario(make_session("exp", expires="2026-01-01T00:30:00Z"))


@dataclass(frozen=True)
class Case:
    """A world, and the settings of its operators."""

    name: str
    make: Callable[[], LiveScenario]
    settings: OperatorSettings = SETTINGS


CASES = [
    Case("an evaluation", lambda: WholeEvaluationScenario(make_evaluation("eval"))),
    Case("an evaluation of a running session", test_workflows.referring),
    Case("a session", test_workflows.session),
    Case("a session that expires", expiring),
    Case("a model", test_workflows.model),
    Case("an audit", test_workflows.audit),
    Case("a pair", training_cases.pair, doubles.SETTINGS),
    Case("replicas for themselves", training_cases.alone, doubles.SETTINGS),
    Case("suspended from the start", training_cases.suspended, doubles.SETTINGS),
]
EACH = [pytest.param(case, id=case.name.replace(" ", "-")) for case in CASES]


def live(case: Case, seeds: range, capsys: pytest.CaptureFixture[str]) -> Counter[str]:
    """Counts of what happened in all runs."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        run = Run(case.make(), seed, FAULTS, case.settings)
        try:
            virtual_time.run(run.run())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        happened += run.happened
    with capsys.disabled():
        moves = ", ".join(f"{name} {count}" for name, count in sorted(happened.items()))
        print(f"\n{case.name}: {len(seeds)} runs; {moves}", end="")
    return happened


@pytest.mark.parametrize("case", EACH)
def test_two_operators_bring_it_to_its_end(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    live(case, range(FEW), capsys)


def test_a_run_can_be_repeated() -> None:
    first, second = (Run(CASES[-1].make(), 1, FAULTS, CASES[-1].settings) for _ in range(2))
    virtual_time.run(first.run())
    virtual_time.run(second.run())
    assert first.path == second.path
    assert first.happened == second.happened


@pytest.mark.soak
@pytest.mark.parametrize("case", EACH)
def test_two_operators_bring_it_to_its_end_many_times(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    happened = live(case, range(MANY), capsys)
    network = {"crash before create", "crash after create", "answer of create lost", "watch breaks"}
    assert network <= happened.keys(), "these never happened"
