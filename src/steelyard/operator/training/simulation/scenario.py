"""The scenario of a training job, for the exploration.

Its Pods live, fail, are evicted, deleted and lost; people suspend it, scale it and take names. The module says what
must hold whatever happens.
"""

from collections.abc import Callable
from functools import lru_cache

import orjson

from steelyard.operator.edge import Key
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.exploration import RESUMED, Actor, Move
from steelyard.operator.simulation.lagging_caches import LaggingCaches, peek
from steelyard.operator.simulation.simulator import Simulator, State
from steelyard.operator.training.conditions import finished, holds
from steelyard.operator.training.labels import JOB_NAME
from steelyard.operator.training.observed.caches import slim, slim_job, slim_pod
from steelyard.operator.training.simulation.invariants import change_fault, end_fault
from steelyard.operator.training.simulation.job_simulation import NAMESPACE, SETTINGS, StoreCaches
from steelyard.operator.training.simulation.pods import ignore, own_pods, pod_moves, remove
from steelyard_common.types import Json
from steelyard_kube.objects import find_controller, read_conditions, read_labels
from steelyard_kube.resource import PODS, SERVICES, Resource, find_resource
from steelyard_kube.store import Key as StoreKey
from steelyard_kube.store import Store

OPERATOR_MOVES = frozenset(
    {"caches catch up", "operator looks", "crash before create", "crash before delete", "crash before get",
     "crash before patch/status", "refused", "answer lost", "conflict", "crash after the last call",
     "a second operator pauses before create", "a second operator pauses before delete",
     "a second operator pauses before patch/status", RESUMED,
     "only resource catch up", "only pods catch up", "only children catch up"}
)  # fmt: skip
POD_MOVES = frozenset(
    {"Pod starts", "Pod succeeds", "Pod is gone", "Pod fails, worth a retry", "Pod fails for good", "Pod is evicted",
     "Pod is deleted by hand", "Pod's node is lost", "Service deleted by hand", "suspended", "resumed", "scaled",
     "Pod starts again in place", "Pod loses its owner", "Pod loses its labels",
     "another's Pod takes the name",
     "another process, with Pods of long ago", "made again", "garbage collection", "time passes"}
)  # fmt: skip


_GROUPS = {PODS: "pods", SERVICES: "children"}


@lru_cache(maxsize=200_000)
def _load(raw: bytes, version: int) -> Json:
    obj: Json = orjson.loads(raw)
    obj["metadata"]["resourceVersion"] = str(version)
    match obj["kind"]:
        case "Pod":
            return slim_pod(obj)
        case "Service":
            return slim(obj)
        case _:
            return slim_job(obj)


class TrainingCaches(LaggingCaches):
    """The operator's caches of training, brought up to date only by a call."""

    store: Store | None = None

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None:
        stored = self.seen.get(StoreKey(resource, namespace, name))
        return _load(*stored) if stored else None

    def children(self, resource: Json) -> tuple[list[Json], list[Json]]:
        cached = [
            _load(*stored)
            for key, stored in sorted(self.seen.items(), key=lambda entry: entry[0][2])
            if key.resource in (PODS, SERVICES)
        ]
        own = [obj for obj in cached if self.concerns(resource, obj)]
        return [obj for obj in own if obj["kind"] != "Pod"], [obj for obj in own if obj["kind"] == "Pod"]

    def settings(self) -> OperatorSettings:
        return SETTINGS

    def apply_write(self, obj: Json) -> bool:
        key = StoreKey(find_resource(obj), obj["metadata"]["namespace"], obj["metadata"]["name"])
        stored = self.store.all_objects.get(key) if self.remembers and self.store else None
        if stored is None or not self.group(key):
            return False
        self.seen[key] = stored
        return True

    def watched(self, obj: Json) -> bool:
        return JOB_NAME in read_labels(obj)

    def concerns(self, resource: Json, obj: Json) -> bool:
        return StoreCaches.concerns(resource["metadata"], obj)

    def group(self, key: StoreKey) -> str | None:
        if key == self._store_key:
            return "resource"
        return _GROUPS.get(key.resource)


class JobScenario:
    """One job and its Pods, as kubelets, nodes and people treat them."""

    transitions = OPERATOR_MOVES | POD_MOVES

    def __init__(self, job: Json, scalable: str = "Worker", remembers: bool = False) -> None:
        """`remembers`: the operator's caches show at once what it writes itself."""
        self.name = f"{job['kind']} {job['metadata']['name']}"
        self._job = job
        self._scalable = scalable
        self._remembers = remembers
        self.key = Key(find_resource(job), NAMESPACE, job["metadata"]["name"])

    def begin(self) -> Simulator:
        caches = TrainingCaches(self.key)
        simulator = Simulator(self.key, caches)
        caches.store, caches.remembers = simulator.store, self._remembers
        self.set_up(simulator)
        self._foreign(simulator, f"{self.key.name}-decoy", {JOB_NAME: self.key.name})
        simulator.catch_up("resource", "children", "pods")
        return simulator

    def set_up(self, simulator: Simulator) -> None:
        if self._job["spec"]["runPolicy"].get("ttlSecondsAfterFinished") is not None:
            simulator.fact("to be deleted")
        metadata = {
            name: value
            for name, value in self._job["metadata"].items()
            if name not in {"uid", "resourceVersion"}
        }
        simulator.store.create(self.key.resource, {**self._job, "metadata": metadata})

    def _foreign(self, simulator: Simulator, name: str, labels: Json) -> None:
        uid = "other"  # of an object that lives: the garbage collector leaves what it owns alone
        simulator.store.put(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "other", "namespace": NAMESPACE, "uid": uid},
            }
        )
        owner = {"apiVersion": "v1", "kind": "Other", "name": "other", "uid": uid, "controller": True}
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}
        simulator.store.put(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}}
        )

    # ---- what may happen

    def moves(self, simulator: Simulator) -> list[Move]:
        job = simulator.resource()
        moves = [move for pod in own_pods(simulator) for move in pod_moves(pod, job)]
        moves += [
            Move("Service deleted by hand", 1, remove(service)) for service in simulator.objects(SERVICES)[:1]
        ]
        if job:
            moves += self._hands(simulator, job)
            moves.append(Move("another process, with Pods of long ago", 1, _another_process))
        if strays(simulator):
            moves.append(Move("garbage collection", 0, lambda simulator: ignore(simulator.cluster.collect())))
        if simulator.look is not None and simulator.look > simulator.now:
            moves.append(Move("time passes", 1, _time_passes))
        return moves

    def _hands(self, simulator: Simulator, job: Json) -> list[Move]:
        moves = [Move("made again", 2, self._make_again)]
        if finished(read_conditions(job)):
            return moves
        policy = job["spec"]["runPolicy"]
        if policy.get("suspend"):
            moves.append(Move("resumed", 0, lambda simulator: self._suspend(simulator, False)))
        else:
            moves.append(Move("suspended", 1, lambda simulator: self._suspend(simulator, True)))
        moves.append(Move("scaled", 1, self._scale))
        if "foreign" not in simulator.facts:
            moves.append(Move("another's Pod takes the name", 2, self._take_name))
        return moves

    def _make_again(self, simulator: Simulator) -> None:
        simulator.store.remove(self.key.resource, self.key.name, NAMESPACE)
        # The next job of the name adopts a Pod without an owner, and counts how that ended.
        orphans = [pod["metadata"]["uid"] for pod in own_pods(simulator) if not find_controller(pod)]
        kept = {"foreign", "to be deleted", *(f"fell {uid}" for uid in orphans)}
        if any(f"fell {uid}" in simulator.facts for uid in orphans):
            kept |= {"failed", "for good"}
        simulator.facts = frozenset(simulator.facts & kept)
        self.set_up(simulator)

    def _suspend(self, simulator: Simulator, on: bool) -> None:
        _change_spec(simulator, lambda spec: {**spec, "runPolicy": {**spec["runPolicy"], "suspend": on}})

    def _scale(self, simulator: Simulator) -> None:
        """Scale the job between one replica and two."""

        def change(spec: Json) -> Json:
            ((field, types),) = (
                (name, value) for name, value in spec.items() if name.endswith("ReplicaSpecs")
            )
            role = types[self._scalable]
            return {**spec, field: {**types, self._scalable: {**role, "replicas": 3 - role["replicas"]}}}

        _change_spec(simulator, change)

    def _take_name(self, simulator: Simulator) -> None:
        name = f"{self.key.name}-{self._scalable.lower()}-0"
        pod = simulator.find(PODS, name, NAMESPACE)
        if pod:
            simulator.fact(f"fell {pod['metadata']['uid']}")
            simulator.store.remove(PODS, name, NAMESPACE)
        simulator.fact("foreign")
        self._foreign(simulator, name, {})

    def progress(self, simulator: Simulator) -> bool:
        job = simulator.resource()
        if job and job["spec"]["runPolicy"].get("suspend") and holds(read_conditions(job), "Suspended"):
            self._suspend(simulator, False)
            return True
        for pod in own_pods(simulator):
            for move in pod_moves(pod, job):
                if move.cost == 0:
                    move.run(simulator)
                    return True
        return False

    # ---- what must hold

    def fault(self, before: State, simulator: Simulator, actor: Actor) -> str:
        stored = before.objects.objects.get(StoreKey(self.key.resource, NAMESPACE, self.key.name))
        return change_fault(peek(stored.raw) if stored else None, before, simulator, actor)

    def end_fault(self, simulator: Simulator) -> str:
        return end_fault(simulator)


def _change_spec(simulator: Simulator, change: Callable[[Json], Json]) -> None:
    job = simulator.resource()
    assert job is not None
    simulator.store.put({**job, "spec": change(job["spec"])})


def _another_process(simulator: Simulator) -> None:
    """Let another process lead, whose list of Pods is older than its list of jobs."""
    simulator.restart()
    simulator.caches.seen = {
        key: entry for key, entry in simulator.caches.seen.items() if key.resource != PODS
    }


def _time_passes(simulator: Simulator) -> None:
    assert simulator.look is not None
    simulator.now = simulator.look


def strays(simulator: Simulator) -> bool:
    objects = simulator.objects()
    living = {obj["metadata"]["uid"] for obj in objects}
    owners = (find_controller(obj) for obj in objects)
    return any(owner is not None and owner["uid"] not in living for owner in owners)
