"""The world of an InferenceSession: a Deployment with its replicas, a Service, a ConfigMap."""

from collections.abc import Callable

from steelyard.kube.objects import controller_of, true_condition
from steelyard.kube.resource import CONFIG_MAPS, DEPLOYMENTS, SERVICES
from steelyard.operator.simulation import environment as env
from steelyard.operator.simulation.exploration import Move
from steelyard.operator.simulation.scenarios import HANDS, OPERATOR, ResourceWorld, remove_child, take_name
from steelyard.operator.simulation.simulator import Bench
from steelyard.types import Json

REPLICA_MOVES = frozenset(
    {"replica becomes ready", "replica is not ready", "replica finds no node", "runner crashes again and again",
     "runner listens on all addresses", "fetching fails for good", "replica deleted by hand",
     "child deleted by hand", "another's object takes the name", "crash before get"}
)  # fmt: skip


class SessionWorld(ResourceWorld):
    """A Deployment with its replicas and a Service."""

    transitions = OPERATOR | HANDS | REPLICA_MOVES

    def __init__(self, resource: Json) -> None:
        super().__init__(resource, "SessionExpired" if resource["spec"].get("expires") else "Ready")

    def surroundings(self, bench: Bench) -> list[Move]:
        moves = [move for deployment in deployments(bench) for move in replica_moves(bench, deployment)]
        resource = bench.resource()
        if resource and not true_condition(resource, "Finished"):
            moves += [
                Move("child deleted by hand", 1, remove_child(child)) for child in self._own(bench, resource)
            ]
            moves += [
                Move("another's object takes the name", 2, take_name(kind, self.key.name))
                for kind in (CONFIG_MAPS, SERVICES, DEPLOYMENTS)
                if "foreign" not in bench.facts
            ]
        return moves

    def progress(self, bench: Bench) -> bool:
        return replicas_start(bench)

    def end_fault(self, bench: Bench) -> str:
        resource = bench.resource()
        if resource is None:
            return "the resource is gone"
        end = true_condition(resource, "Finished")
        own = self._own(bench, resource)
        if end:
            left = [each["metadata"]["name"] for each in own]
            return f"{', '.join(left)} outlived it" if left else self._reason_fault(bench, end["reason"])
        if not true_condition(resource, "Ready"):
            return "it is neither ready nor has it finished"
        if resource["spec"].get("expires"):
            return "it has not expired"
        kinds = sorted(each["kind"] for each in own)
        return "" if kinds == ["ConfigMap", "Deployment", "Service"] else f"it is ready with {kinds}"

    def failures(self, facts: frozenset[str]) -> set[str]:
        return super().failures(facts) | ({"StartDeadline"} if "late" in facts else set())


def deployments(bench: Bench) -> list[Json]:
    return [deployment for deployment in bench.objects(DEPLOYMENTS) if controller_of(deployment)]


def replicas_start(bench: Bench) -> bool:
    """Have one replica become ready that nothing keeps from it; False when there is none."""
    for deployment in deployments(bench):
        pod = env.replica_pod(bench, deployment)
        status = (pod or {}).get("status") or {}
        stuck = "initContainerStatuses" in status or "containerStatuses" in status or "reason" in status
        if not stuck and status != (wanted := env.ready(bench)) and not _ready(status):
            env.replica(bench, deployment, wanted)
            return True
    return False


def replica_moves(bench: Bench, deployment: Json) -> list[Move]:
    def move(name: str, cost: int, status: Callable[[Bench], Json], *facts: str) -> Move:
        def run(bench: Bench) -> None:
            bench.fact(*facts)
            env.replica(bench, deployment, status(bench))

        return Move(name, cost, run)

    pod = env.replica_pod(bench, deployment)
    moves = [
        move("replica is not ready", 1, lambda bench: env.ready(bench, "False")),
        move("replica finds no node", 1, env.unschedulable),
        move("runner crashes again and again", 1, env.crash_looping, "RunnerFailed"),
        move("runner listens on all addresses", 1, env.bound_to_all, "BoundToAllAddresses"),
        move("fetching fails for good", 1, env.init_failed_for_good, "RunnerFailed"),
    ]
    if pod:
        moves.append(Move("replica deleted by hand", 1, lambda bench: env.remove(bench, pod)))
    if not pod or not _ready(pod.get("status") or {}):
        moves.append(move("replica becomes ready", 0, env.ready))
    return moves


def _ready(status: Json) -> bool:
    conditions = status.get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
