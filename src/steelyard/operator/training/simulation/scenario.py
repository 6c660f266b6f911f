"""The world of a training job, for the exploration: its Pods live, fail, are evicted, deleted and lost; hands suspend,
scale and take names; and what must hold whatever happens.
"""

from collections.abc import Callable
from functools import lru_cache

import orjson

from steelyard.kube.objects import controller_of
from steelyard.kube.resource import PODS, SERVICES, Resource, resource_of
from steelyard.kube.store import Key as StoreKey
from steelyard.kube.store import Store
from steelyard.operator.edge import Key
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.exploration import RESUMED, Actor, Move
from steelyard.operator.simulation.lagging_caches import LaggingCaches, peek
from steelyard.operator.simulation.simulator import Bench, State
from steelyard.operator.training.conditions import finished, holds
from steelyard.operator.training.labels import JOB_NAME
from steelyard.operator.training.observed.caches import slim, slim_job, slim_pod
from steelyard.operator.training.simulation.invariants import change_fault, end_fault
from steelyard.operator.training.simulation.job_simulation import NAMESPACE, SETTINGS, StoreCaches
from steelyard.operator.training.simulation.pods import ignored, own_pods, pod_moves, remove
from steelyard.types import Json

OPERATOR = frozenset(
    {"caches catch up", "operator looks", "crash before create", "crash before delete", "crash before get",
     "crash before patch/status", "refused", "answer lost", "conflict", "crash after the last call",
     "a second operator pauses before create", "a second operator pauses before delete",
     "a second operator pauses before patch/status", RESUMED,
     "only resource catch up", "only pods catch up", "only children catch up"}
)  # fmt: skip
LIFE = frozenset(
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
    """The operator's caches of training, brought up to date only when told to."""

    store: Store | None = None

    def resource(self, resource: Resource, namespace: str, name: str) -> Json | None:
        stored = self.seen.get(StoreKey(resource, namespace, name))
        return _load(*stored) if stored else None

    def children(self, resource: Json) -> tuple[list[Json], list[Json]]:
        found = [
            _load(*stored)
            for key, stored in sorted(self.seen.items(), key=lambda each: each[0][2])
            if key.resource in (PODS, SERVICES)
        ]
        own = [each for each in found if self.concerns(resource, each)]
        return [each for each in own if each["kind"] != "Pod"], [
            each for each in own if each["kind"] == "Pod"
        ]

    def settings(self) -> OperatorSettings:
        return SETTINGS

    def apply_write(self, obj: Json) -> bool:
        key = StoreKey(resource_of(obj), obj["metadata"]["namespace"], obj["metadata"]["name"])
        stored = self.store.stored.get(key) if self.remembers and self.store else None
        if stored is None or not self.group(key):
            return False
        self.seen[key] = stored
        return True

    def watched(self, obj: Json) -> bool:
        return JOB_NAME in (obj["metadata"].get("labels") or {})

    def concerns(self, resource: Json, obj: Json) -> bool:
        return StoreCaches.concerns(resource["metadata"], obj)

    def group(self, key: StoreKey) -> str | None:
        if key == self._store_key:
            return "resource"
        return _GROUPS.get(key.resource)


class JobWorld:
    """One job and its Pods, as kubelets, nodes and people treat them."""

    transitions = OPERATOR | LIFE

    def __init__(self, job: Json, scalable: str = "Worker", remembers: bool = False) -> None:
        """`remembers`: the operator's caches show at once what it writes itself."""
        self.name = f"{job['kind']} {job['metadata']['name']}"
        self._job = job
        self._scalable = scalable
        self._remembers = remembers
        self.key = Key(resource_of(job), NAMESPACE, job["metadata"]["name"])

    def begin(self) -> Bench:
        caches = TrainingCaches(self.key)
        bench = Bench(self.key, caches)
        caches.store, caches.remembers = bench.store, self._remembers
        self.set_up(bench)
        self._foreign(bench, f"{self.key.name}-decoy", {JOB_NAME: self.key.name})
        bench.catch_up("resource", "children", "pods")
        return bench

    def set_up(self, bench: Bench) -> None:
        if self._job["spec"]["runPolicy"].get("ttlSecondsAfterFinished") is not None:
            bench.fact("to be deleted")
        metadata = {
            each: value
            for each, value in self._job["metadata"].items()
            if each not in {"uid", "resourceVersion"}
        }
        bench.store.create(self.key.resource, {**self._job, "metadata": metadata})

    def _foreign(self, bench: Bench, name: str, labels: Json) -> None:
        uid = "other"  # of an object that lives: the garbage collector leaves what it owns alone
        bench.store.put(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "other", "namespace": NAMESPACE, "uid": uid},
            }
        )
        owner = {"apiVersion": "v1", "kind": "Other", "name": "other", "uid": uid, "controller": True}
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}
        bench.store.put(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}}
        )

    # ---- what may happen

    def moves(self, bench: Bench) -> list[Move]:
        job = bench.resource()
        moves = [move for pod in own_pods(bench) for move in pod_moves(pod, job)]
        moves += [
            Move("Service deleted by hand", 1, remove(service)) for service in bench.objects(SERVICES)[:1]
        ]
        if job:
            moves += self._hands(bench, job)
            moves.append(Move("another process, with Pods of long ago", 1, _another_process))
        if strays(bench):
            moves.append(Move("garbage collection", 0, lambda bench: ignored(bench.cluster.collect())))
        if bench.look is not None and bench.look > bench.now:
            moves.append(Move("time passes", 1, _time_passes))
        return moves

    def _hands(self, bench: Bench, job: Json) -> list[Move]:
        moves = [Move("made again", 2, self._made_again)]
        if finished((job.get("status") or {}).get("conditions") or ()):
            return moves
        policy = job["spec"]["runPolicy"]
        if policy.get("suspend"):
            moves.append(Move("resumed", 0, lambda bench: self._suspend(bench, False)))
        else:
            moves.append(Move("suspended", 1, lambda bench: self._suspend(bench, True)))
        moves.append(Move("scaled", 1, self._scaled))
        if "foreign" not in bench.facts:
            moves.append(Move("another's Pod takes the name", 2, self._take_name))
        return moves

    def _made_again(self, bench: Bench) -> None:
        bench.store.remove(self.key.resource, self.key.name, NAMESPACE)
        bench.facts = frozenset(fact for fact in bench.facts if fact in {"foreign", "to be deleted"})
        self.set_up(bench)

    def _suspend(self, bench: Bench, on: bool) -> None:
        _change_spec(bench, lambda spec: {**spec, "runPolicy": {**spec["runPolicy"], "suspend": on}})

    def _scaled(self, bench: Bench) -> None:
        """Between one and two."""

        def change(spec: Json) -> Json:
            ((field, types),) = ((name, each) for name, each in spec.items() if name.endswith("ReplicaSpecs"))
            role = types[self._scalable]
            return {**spec, field: {**types, self._scalable: {**role, "replicas": 3 - role["replicas"]}}}

        _change_spec(bench, change)

    def _take_name(self, bench: Bench) -> None:
        name = f"{self.key.name}-{self._scalable.lower()}-0"
        pod = bench.find(PODS, name, NAMESPACE)
        if pod:
            bench.fact(f"fell {pod['metadata']['uid']}")
            bench.store.remove(PODS, name, NAMESPACE)
        bench.fact("foreign")
        self._foreign(bench, name, {})

    def progress(self, bench: Bench) -> bool:
        job = bench.resource()
        if job and job["spec"]["runPolicy"].get("suspend") and holds(_conditions(job), "Suspended"):
            self._suspend(bench, False)
            return True
        for pod in own_pods(bench):
            for move in pod_moves(pod, job):
                if move.cost == 0:
                    move.run(bench)
                    return True
        return False

    # ---- what must hold

    def fault(self, before: State, bench: Bench, actor: Actor) -> str:
        stored = before.objects.objects.get(StoreKey(self.key.resource, NAMESPACE, self.key.name))
        return change_fault(peek(stored.raw) if stored else None, before, bench, actor)

    def end_fault(self, bench: Bench) -> str:
        return end_fault(bench)


def _change_spec(bench: Bench, change: Callable[[Json], Json]) -> None:
    job = bench.resource()
    assert job is not None
    bench.store.put({**job, "spec": change(job["spec"])})


def _another_process(bench: Bench) -> None:
    """It leads now, and its list of Pods is older than that of jobs."""
    bench.restart()
    bench.caches.seen = {key: each for key, each in bench.caches.seen.items() if key.resource != PODS}


def _time_passes(bench: Bench) -> None:
    assert bench.look is not None
    bench.now = bench.look


def _conditions(job: Json) -> list[Json]:
    conditions: list[Json] = (job.get("status") or {}).get("conditions") or []
    return conditions


def strays(bench: Bench) -> bool:
    objects = bench.objects()
    living = {obj["metadata"]["uid"] for obj in objects}
    owners = (controller_of(obj) for obj in objects)
    return any(owner is not None and owner["uid"] not in living for owner in owners)
