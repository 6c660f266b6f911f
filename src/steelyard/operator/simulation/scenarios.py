"""The scenarios that are explored: one per workflow, with all that may happen in it and what must hold.

`transitions` are the moves that a scenario names: a search that never took one of them has not looked there.
"""

from collections.abc import Callable
from typing import Any

from steelyard.operator.edge import Key
from steelyard.operator.names import COMPONENT, ENTITY, OWNER
from steelyard.operator.simulation import environment as env
from steelyard.operator.simulation.exploration import RESUMED, Actor, Move
from steelyard.operator.simulation.invariants import (
    find_late_object,
    foreign_touched,
    steps_taken_back,
    still_runs,
    strays,
    two_jobs,
)
from steelyard.operator.simulation.resources import NAMESPACE
from steelyard.operator.simulation.simulator import GROUPS, Simulator, State, differing, seconds
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import find_controller, true_condition
from steelyard_kube.resource import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_SESSIONS,
    JOBS,
    PODS,
    find_resource,
)
from steelyard_kube.store import Key as StoreKey

OPERATOR_MOVES = frozenset(
    {"caches catch up", "operator looks", "crash before create", "crash before patch/status", "refused",
     "answer lost", "conflict", "crash after the last call", "a second operator pauses before create",
     "a second operator pauses before patch/status", RESUMED}
)  # fmt: skip
FENCED = "an earlier attempt is fenced"
USER_MOVES = frozenset({"made again", "garbage collection", "time passes"})
JOB_MOVES = frozenset(
    {"Pod starts", "Job succeeds", "Job fails, worth a retry", "Job fails for good", "Job runs out of memory",
     "Job is evicted", "Job's Pod deleted by hand", "Job's Pod finds no node", "Job's image is missing",
     "Job's node is lost", "Job's node has been lost for long", "Job deleted by hand", "Job's deadline",
     "crash before get",
     "another's object takes the name", "only resource catch up", "only children catch up",
     "only pods catch up"}
)  # fmt: skip
SESSION_MOVES = frozenset(
    {
        "crash before delete",
        "a second operator pauses before delete",
        "only sessions catch up",
        "session becomes ready",
        "session fails",
        "session deleted by hand",
    }
)


class ResourceScenario:
    """Moves and checks that all scenarios share: people, time, and what must hold."""

    transitions = OPERATOR_MOVES | USER_MOVES

    def __init__(self, resource: Json, success: str) -> None:
        self.name = f"{resource['kind']} {resource['metadata']['name']}"
        self._resource = resource
        self._success = success
        self.key = Key(find_resource(resource), NAMESPACE, resource["metadata"]["name"])

    def begin(self) -> Simulator:
        simulator = Simulator(self.key)
        self.set_up(simulator)
        self._decoys(simulator)
        simulator.catch_up(*GROUPS)
        return simulator

    def set_up(self, simulator: Simulator) -> None:
        metadata = {"name": self.key.name, "namespace": NAMESPACE}
        simulator.store.create(self.key.resource, {**self._resource, "metadata": metadata})

    def _decoys(self, simulator: Simulator) -> None:
        """Another project's objects with our labels, which prove nothing."""
        resource = simulator.resource()
        assert resource is not None
        labels = {OWNER: resource["metadata"]["uid"], ENTITY: resource["spec"]["id"], COMPONENT: "client"}
        for kind in (JOBS, INFERENCE_SESSIONS, DEPLOYMENTS):
            env.make_foreign(simulator, kind, f"{self.key.name}-decoy", labels=labels)
        env.make_foreign(simulator, PODS, f"{self.key.name}-decoy", labels=labels)
        for kind, condition in ((JOBS, "Complete"), (INFERENCE_SESSIONS, "Failed"), (PODS, "Ready")):
            content = {"phase": "Running", "conditions": [{"type": condition, "status": "True"}]}
            simulator.store.set_status(kind, f"{self.key.name}-decoy", NAMESPACE, content)

    # ---- what may happen

    def moves(self, simulator: Simulator) -> list[Move]:
        moves = self.surroundings(simulator)
        resource = simulator.resource()
        if resource:
            moves.append(Move("made again", 1, self._make_again))
        if strays(simulator):
            moves.append(Move("garbage collection", 0, _collect))
        if simulator.look is not None and simulator.look > simulator.now:
            moves.append(Move("time passes", 1, self._time_passes))
        return moves

    def _make_again(self, simulator: Simulator) -> None:
        simulator.store.remove(self.key.resource, self.key.name, NAMESPACE)
        simulator.facts &= {"foreign", FENCED}
        self.set_up(simulator)

    def _time_passes(self, simulator: Simulator) -> None:
        assert simulator.look is not None
        if simulator.look - simulator.now > seconds(1000):
            simulator.fact("late")
        simulator.now = simulator.look

    def surroundings(self, simulator: Simulator) -> list[Move]:
        return []

    def progress(self, simulator: Simulator) -> bool:
        return False

    # ---- what must hold

    def fault(self, before: State, simulator: Simulator, actor: Actor) -> str:
        after = simulator.store.all_objects
        changed = differing(before.objects.objects, after)
        if not changed:
            return ""
        doubled = two_jobs(simulator)
        if doubled and actor == "late operator":  # its Pod ends itself: storage knows a later attempt
            simulator.fact(FENCED)
        faults = (
            foreign_touched(before, self.find_protected(before, simulator, changed))
            if actor != "surroundings"
            else "",
            steps_taken_back(before, simulator, self.key),
            find_late_object(before, simulator, changed) if actor == "operator" else "",
            doubled if FENCED not in simulator.facts else "",
        )
        return next((fault for fault in faults if fault), "")

    def find_protected(self, before: State, simulator: Simulator, changed: set[StoreKey]) -> set[StoreKey]:
        """Return those of the changes that the operator must not have made if the object belongs to another project."""
        return changed

    def end_fault(self, simulator: Simulator) -> str:
        resource = simulator.resource()
        if resource is None:
            return "the resource is gone"
        end = true_condition(resource, "Finished")
        if not end:
            return "it has not finished"
        if left := [
            child["metadata"]["name"] for child in self._own(simulator, resource) if still_runs(child)
        ]:
            return f"{', '.join(left)} outlived it"
        if lost := strays(simulator):
            return f"{', '.join(lost)} belong to nobody"
        return self._reason_fault(simulator, end["reason"])

    def _reason_fault(self, simulator: Simulator, reason: str) -> str:
        allowed = {self._success, *self.failures(simulator.facts)}
        return "" if reason in allowed else f"{reason} after {sorted(simulator.facts) or 'nothing'}"

    def failures(self, facts: frozenset[str]) -> set[str]:
        """The reasons of failure that the facts explain."""
        words = {fact for fact in facts if fact[0].isupper()}
        return words | ({"NameConflict"} if "foreign" in facts else set())

    def _own(self, simulator: Simulator, resource: Json) -> list[Json]:
        uid = resource["metadata"]["uid"]
        return [obj for obj in simulator.objects() if (find_controller(obj) or {}).get("uid") == uid]


class InstantScenario(ResourceScenario):
    """A scenario in which nothing runs: the resource is finished at once."""

    transitions = OPERATOR_MOVES - {"crash before create", "a second operator pauses before create"} | {
        "made again"
    }


class StepScenario(ResourceScenario):
    """A workflow of Jobs: Model, Report, Analysis, Audit, and an Evaluation that refers to a session."""

    transitions = OPERATOR_MOVES | USER_MOVES | JOB_MOVES

    def __init__(self, resource: Json, success: str, default: str, steps: tuple[str, ...] = ("run",)) -> None:
        super().__init__(resource, success)
        self._default = default
        self._names = [(JOBS, f"{self.key.name}-{step}-a1") for step in steps]
        self._names += [(CONFIG_MAPS, f"{self.key.name}-{steps[0]}-a1")]

    def surroundings(self, simulator: Simulator) -> list[Move]:
        moves = [move for job in env.jobs(simulator) for move in self._job_moves(simulator, job)]
        resource = simulator.resource()
        if resource and not true_condition(resource, "Finished"):
            moves += [
                Move("another's object takes the name", 2, self._forgetting(take_name(kind, name)))
                for kind, name in self._names
                if "foreign" not in simulator.facts
            ]
        moves += [
            Move("Job deleted by hand", 1, self._forgetting(remove_child(job)))
            for job in simulator.objects(JOBS)
            if find_controller(job)
        ]
        return moves

    def _forgetting(self, run: Callable[[Simulator], None]) -> Callable[[Simulator], None]:
        """A deletion that may take the only trace of a client's success along."""

        def runs(simulator: Simulator) -> None:
            run(simulator)
            if "session failed late" in simulator.facts:
                simulator.fact("SessionFailed")

        return runs

    def _job_moves(self, simulator: Simulator, job: Json) -> list[Move]:
        def move(name: str, cost: int, effect: Callable[[Simulator, Json], None], *facts: str) -> Move:
            def run(simulator: Simulator) -> None:
                simulator.fact(*facts)
                effect(simulator, job)

            return Move(name, cost, run)

        name = job["metadata"]["name"]
        step = job["metadata"]["labels"][COMPONENT]
        default = "OutputInvalid" if step == "verify" else self._default
        pod = env.find_pod(simulator, job)
        late = (
            [move("Job's deadline", 0, env.job_times_out, "Timeout")] if env.overdue(simulator, job) else []
        )
        if not pod:
            return [
                *late,
                move("Pod starts", 0, env.pod_runs),
                move("Job's Pod finds no node", 1, env.job_unschedulable),
                move("Job's image is missing", 1, env.job_image_missing, "BadImage"),
            ]
        if env.stuck(simulator, job):
            return [*late, move("Job succeeds", 1, env.job_succeeds)]
        earlier = any(
            fact.startswith(f"retry {step} ") and fact != f"retry {step} {name}" for fact in simulator.facts
        )
        counted = [f"retry {step} {name}", *([default] if earlier else [])]
        return [
            *late,
            move("Job succeeds", 0, env.job_succeeds),
            move(
                "Job fails, worth a retry", 1, _failing(1, '{"code": "", "message": "once more"}'), *counted
            ),
            move("Job fails for good", 1, _failing(65, '{"code": "Hopeless", "message": "no"}'), default),
            move("Job runs out of memory", 1, _failing(137, "", "OOMKilled"), default),
            move("Job is evicted", 1, env.job_evicted),
            move("Job's Pod deleted by hand", 1, env.job_pod_deleted),
            move("Job's node is lost", 1, env.job_node_lost),
            move(
                "Job's node has been lost for long",
                1,
                lambda simulator, job: env.job_node_lost(simulator, job, 120),
            ),
        ]

    def progress(self, simulator: Simulator) -> bool:
        moved = False
        for job in env.jobs(simulator):
            if env.overdue(simulator, job):
                simulator.fact("Timeout")
                env.job_times_out(simulator, job)
            elif env.stuck(simulator, job):
                continue
            else:
                env.job_succeeds(simulator, job)
            moved = True
        return moved

    def failures(self, facts: frozenset[str]) -> set[str]:
        return super().failures(facts) | ({"Timeout"} if "late" in facts else set())


class EvaluationScenario(StepScenario):
    """A session, which others run, then the client, then verification."""

    transitions = StepScenario.transitions | SESSION_MOVES

    def __init__(self, resource: Json) -> None:
        super().__init__(resource, "Verified", "ClientFailed", ("client", "verify"))
        self._names += [(INFERENCE_SESSIONS, f"{self.key.name}-session")]

    def surroundings(self, simulator: Simulator) -> list[Move]:
        return super().surroundings(simulator) + [
            move for session in _sessions(simulator) for move in self._session_moves(simulator, session)
        ]

    def _read_failure(self, simulator: Simulator, session: Json) -> tuple[str, ...]:
        """Return the facts of a session's failure: an unseen success counts as long as its Job exists."""
        resource = simulator.resource()
        own = self._own(simulator, resource) if resource else []
        if not resource or session["metadata"]["name"] not in {child["metadata"]["name"] for child in own}:
            return ()
        if "ClientSucceeded" in sequence(resource, "status", "milestones"):
            return ()
        clients = [child for child in own if "-client-" in child["metadata"]["name"]]
        return (
            "session failed late"
            if any(true_condition(client, "Complete") for client in clients)
            else "SessionFailed",
        )

    def _session_moves(self, simulator: Simulator, session: Json) -> list[Move]:
        def ready(simulator: Simulator) -> None:
            env.session_status(simulator, session, "Ready", "Ready")

        def fails(simulator: Simulator) -> None:
            simulator.fact(*self._read_failure(simulator, session))
            env.session_status(simulator, session, "Failed", "RunnerFailed")

        moves = [Move("session deleted by hand", 1, lambda simulator: env.remove(simulator, session))]
        if not true_condition(session, "Finished"):
            moves.append(Move("session fails", 1, fails))
            if not true_condition(session, "Ready"):
                moves.append(Move("session becomes ready", 0, ready))
        return moves

    def progress(self, simulator: Simulator) -> bool:
        for session in _sessions(simulator):
            if not true_condition(session, "Finished") and not true_condition(session, "Ready"):
                env.session_status(simulator, session, "Ready", "Ready")
                return True
        return super().progress(simulator)


def _failing(code: int, message: str, reason: str = "Error") -> Callable[[Simulator, Json], None]:
    return lambda simulator, job: env.job_fails(simulator, job, code, message, reason)


def take_name(kind: Any, name: str) -> Callable[[Simulator], None]:
    def run(simulator: Simulator) -> None:
        simulator.fact("foreign")
        env.make_foreign(simulator, kind, name)
        simulator.cluster.collect()

    return run


def remove_child(child: Json) -> Callable[[Simulator], None]:
    return lambda simulator: env.remove(simulator, child)


def _collect(simulator: Simulator) -> None:
    simulator.cluster.collect()


def _sessions(simulator: Simulator) -> list[Json]:
    return [session for session in simulator.objects(INFERENCE_SESSIONS) if find_controller(session)]
