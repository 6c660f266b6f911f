"""The scenario of an InferenceSession: a Deployment with its replicas, a Service, a ConfigMap."""

from collections.abc import Callable

from steelyard.operator.simulation import environment as env
from steelyard.operator.simulation.exploration import Move
from steelyard.operator.simulation.scenarios import (
    OPERATOR_MOVES,
    USER_MOVES,
    ResourceScenario,
    remove_child,
    take_name,
)
from steelyard.operator.simulation.simulator import Simulator
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import find_controller, read_status, true_condition
from steelyard_kube.resource import CONFIG_MAPS, DEPLOYMENTS, SERVICES

REPLICA_MOVES = frozenset(
    {"replica becomes ready", "replica is not ready", "replica finds no node", "runner crashes again and again",
     "runner listens on all addresses", "fetching fails for good", "replica deleted by hand",
     "child deleted by hand", "another's object takes the name", "crash before get"}
)  # fmt: skip


class SessionScenario(ResourceScenario):
    """A Deployment with its replicas and a Service."""

    transitions = OPERATOR_MOVES | USER_MOVES | REPLICA_MOVES

    def __init__(self, resource: Json) -> None:
        super().__init__(resource, "SessionExpired" if resource["spec"].get("expires") else "Ready")

    def surroundings(self, simulator: Simulator) -> list[Move]:
        moves = [
            move for deployment in deployments(simulator) for move in replica_moves(simulator, deployment)
        ]
        resource = simulator.resource()
        if resource and not true_condition(resource, "Finished"):
            moves += [
                Move("child deleted by hand", 1, remove_child(child))
                for child in self._own(simulator, resource)
            ]
            moves += [
                Move("another's object takes the name", 2, take_name(kind, self.key.name))
                for kind in (CONFIG_MAPS, SERVICES, DEPLOYMENTS)
                if "foreign" not in simulator.facts
            ]
        return moves

    def progress(self, simulator: Simulator) -> bool:
        return replicas_start(simulator)

    def end_fault(self, simulator: Simulator) -> str:
        resource = simulator.resource()
        if resource is None:
            return "the resource is gone"
        end = true_condition(resource, "Finished")
        own = self._own(simulator, resource)
        if end:
            left = [child["metadata"]["name"] for child in own]
            return f"{', '.join(left)} outlived it" if left else self._reason_fault(simulator, end["reason"])
        if not true_condition(resource, "Ready"):
            return "it is neither ready nor has it finished"
        if resource["spec"].get("expires"):
            return "it has not expired"
        kinds = sorted(child["kind"] for child in own)
        return "" if kinds == ["ConfigMap", "Deployment", "Service"] else f"it is ready with {kinds}"

    def failures(self, facts: frozenset[str]) -> set[str]:
        return super().failures(facts) | ({"StartDeadline"} if "late" in facts else set())


def deployments(simulator: Simulator) -> list[Json]:
    return [deployment for deployment in simulator.objects(DEPLOYMENTS) if find_controller(deployment)]


def replicas_start(simulator: Simulator) -> bool:
    """Have one replica become ready that nothing keeps from it; False when there is none."""
    for deployment in deployments(simulator):
        pod = env.replica_pod(simulator, deployment)
        status = read_status(pod)
        stuck = "initContainerStatuses" in status or "containerStatuses" in status or "reason" in status
        if not stuck and status != (wanted := env.ready(simulator)) and not _ready(status):
            env.replica(simulator, deployment, wanted)
            return True
    return False


def replica_moves(simulator: Simulator, deployment: Json) -> list[Move]:
    def move(name: str, cost: int, status: Callable[[Simulator], Json], *facts: str) -> Move:
        def run(simulator: Simulator) -> None:
            simulator.fact(*facts)
            env.replica(simulator, deployment, status(simulator))

        return Move(name, cost, run)

    pod = env.replica_pod(simulator, deployment)
    moves = [
        move("replica is not ready", 1, lambda simulator: env.ready(simulator, "False")),
        move("replica finds no node", 1, env.unschedulable),
        move("runner crashes again and again", 1, env.crash_looping, "RunnerFailed"),
        move("runner listens on all addresses", 1, env.bind_to_all, "BoundToAllAddresses"),
        move("fetching fails for good", 1, env.init_failed_for_good, "RunnerFailed"),
    ]
    if pod:
        moves.append(Move("replica deleted by hand", 1, lambda simulator: env.remove(simulator, pod)))
    if not pod or not _ready(read_status(pod)):
        moves.append(move("replica becomes ready", 0, env.ready))
    return moves


def _ready(status: Json) -> bool:
    conditions = sequence(status, "conditions")
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
