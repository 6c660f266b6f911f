"""The world of a training job, for the exploration: its Pods live, fail, are evicted, deleted and lost; hands suspend,
scale and take names; and what must hold whatever happens.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import orjson

from steelyard.kube.resource import PODS, SERVICES, Resource, resource_of
from steelyard.kube.store import Key as StoreKey
from steelyard.kube.store import Store, Stored
from steelyard.operator.bench import Bench, LaggingCaches, State, peek
from steelyard.operator.conditions import time_text
from steelyard.operator.edge import Key
from steelyard.operator.exploration import Move
from steelyard.operator.names import controller_of
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training.caches import slim, slim_job, slim_pod
from steelyard.operator.training.doubles import NAMESPACE, SETTINGS, StoreCaches
from steelyard.operator.training.invariants import change_fault, end_fault
from steelyard.operator.training.labels import JOB_NAME
from steelyard.operator.training.status import finished, holds

Json = dict[str, Any]

OPERATOR = frozenset(
    {"caches catch up", "operator looks", "crash before create", "crash before delete", "crash before get",
     "crash before patch/status", "refused", "answer lost", "conflict", "crash after the last call",
     "only resource catch up", "only pods catch up", "only children catch up"}
)  # fmt: skip
LIFE = frozenset(
    {"Pod starts", "Pod succeeds", "Pod is gone", "Pod fails, worth a retry", "Pod fails for good", "Pod is evicted",
     "Pod is deleted by hand", "Pod's node is lost", "Service deleted by hand", "suspended", "resumed", "scaled",
     "Pod loses its owner", "Pod loses its labels",
     "another's Pod takes the name",
     "another process, with Pods of long ago", "made again", "garbage collection", "time passes"}
)  # fmt: skip


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

    def wrote(self, obj: Json) -> bool:
        key = StoreKey(resource_of(obj), obj["metadata"]["namespace"], obj["metadata"]["name"])
        stored = self.store.snapshot().objects.get(key) if self.remembers and self.store else None
        if stored is None or not self.group(key):
            return False
        self.seen[key] = stored
        return True

    def watched(self, obj: Json) -> bool:
        return JOB_NAME in (obj["metadata"].get("labels") or {})

    def concerns(self, resource: Json, obj: Json) -> bool:
        return StoreCaches.concerns(resource["metadata"], obj)

    def group(self, key: StoreKey) -> str | None:
        if key == StoreKey(self._key.resource, self._key.namespace, self._key.name):
            return "resource"
        return {PODS: "pods", SERVICES: "children"}.get(key.resource)


class JobWorld:
    """One job and its Pods, as kubelets, nodes and people treat them."""

    transitions = OPERATOR | LIFE

    def __init__(self, job: Json, scalable: str = "Worker", remembers: bool = False) -> None:
        """`remembers`: the operator's caches show at once what it writes itself."""
        self.name = f"{job['kind']} {job['metadata']['name']}"
        self._job = job
        self._scalable = scalable
        self._remembers = remembers
        self._key = Key(resource_of(job), NAMESPACE, job["metadata"]["name"])

    def begin(self) -> Bench:
        caches = TrainingCaches(self._key)
        bench = Bench(self._key, caches)
        caches.store, caches.remembers = bench.store, self._remembers
        if self._job["spec"]["runPolicy"].get("ttlSecondsAfterFinished") is not None:
            bench.fact("to be deleted")
        self._make(bench)
        self._foreign(bench, f"{self._key.name}-decoy", {JOB_NAME: self._key.name})
        bench.catch_up("resource", "children", "pods")
        return bench

    def _make(self, bench: Bench) -> None:
        metadata = {
            each: value
            for each, value in self._job["metadata"].items()
            if each not in {"uid", "resourceVersion"}
        }
        bench.store.create(self._key.resource, {**self._job, "metadata": metadata})

    def _foreign(self, bench: Bench, name: str, labels: Json) -> None:
        owner = {"apiVersion": "v1", "kind": "Other", "name": "other", "uid": "other", "controller": True}
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}
        bench.store.put(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}}
        )

    # ---- what may happen

    def moves(self, bench: Bench) -> list[Move]:
        job = bench.resource()
        moves = [move for pod in own_pods(bench) for move in _pod_moves(pod, job)]
        moves += [
            Move("Service deleted by hand", 1, _remove(each)) for each in bench.store.objects(SERVICES)[:1]
        ]
        if job:
            moves += self._hands(bench, job)
            moves.append(Move("another process, with Pods of long ago", 1, _another_process))
        if strays(bench):
            moves.append(Move("garbage collection", 0, lambda bench: _ignored(bench.cluster.collect())))
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
        bench.store.remove(self._key.resource, self._key.name, NAMESPACE)
        bench.facts = frozenset(fact for fact in bench.facts if fact in {"foreign", "to be deleted"})
        self._make(bench)

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
        name = f"{self._key.name}-{self._scalable.lower()}-0"
        pod = bench.store.find(PODS, name, NAMESPACE)
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
            for move in _pod_moves(pod, job):
                if move.cost == 0:
                    move.run(bench)
                    return True
        return False

    # ---- what must hold

    def fault(self, before: State, bench: Bench, by_operator: bool) -> str:
        stored = before.objects.objects.get(StoreKey(self._key.resource, NAMESPACE, self._key.name))
        return change_fault(peek(stored.raw) if stored else None, before, bench, by_operator)

    def end_fault(self, bench: Bench) -> str:
        return end_fault(bench)


def own_pods(bench: Bench) -> list[Json]:
    """Those of training jobs, whether somebody controls them or not."""
    pods = bench.store.objects(PODS)
    return [each for each in pods if (controller_of(each) or {}).get("kind") != "Other"]


def _pod_moves(pod: Json, job: Json | None) -> Iterable[Move]:
    status, uid = pod.get("status") or {}, pod["metadata"]["uid"]
    lost = any(each.get("reason") == "NodeNotReady" for each in status.get("conditions") or ())
    if pod["metadata"].get("deletionTimestamp"):
        if not lost or _is_a_predecessors(pod, job):  # the cluster's own garbage collector sees to that
            yield Move("Pod is gone", 0, _remove(pod))
        return
    if status.get("phase") == "Pending":
        yield Move("Pod starts", 0, _starts(pod))
        yield Move("Pod is deleted by hand", 1, _fell(uid, _remove(pod)))
    if status.get("phase") != "Running" or lost:
        return
    yield Move("Pod succeeds", 0, _ends(pod, 0))
    yield Move("Pod fails, worth a retry", 1, _fell(uid, _ends(pod, 137), "failed"))
    yield Move("Pod fails for good", 1, _fell(uid, _ends(pod, 1), "for good"))
    yield Move("Pod is evicted", 1, _fell(uid, _sets(pod, {"phase": "Failed", "reason": "Evicted"})))
    yield Move("Pod is deleted by hand", 1, _fell(uid, _deletes(pod)))
    yield Move("Pod's node is lost", 1, _fell(uid, _loses(pod)))
    yield Move("Pod loses its owner", 1, _orphans(pod))
    yield Move("Pod loses its labels", 2, _fell(uid, _unlabels(pod), "foreign"))
    if pod["spec"]["restartPolicy"] == "OnFailure":
        count = int(status["containerStatuses"][0].get("restartCount") or 0) + 1
        yield Move("Pod starts again in place", 1, _fell(f"{uid}, time {count}", _again(pod, count)))


def _is_a_predecessors(pod: Json, job: Json | None) -> bool:
    return job is None or (controller_of(pod) or {}).get("uid") != job["metadata"]["uid"]


# ---- what each of them does


def _fell(uid: str, run: Callable[[Bench], None], *facts: str) -> Callable[[Bench], None]:
    def runs(bench: Bench) -> None:
        bench.fact(f"fell {uid}", *facts)
        run(bench)

    return runs


def _starts(pod: Json) -> Callable[[Bench], None]:
    def run(bench: Bench) -> None:
        bench.store.put({**pod, "spec": {**pod["spec"], "nodeName": "node"}})
        _sets(pod, {"phase": "Running"}, {"running": {}})(bench)

    return run


def _ends(pod: Json, code: int) -> Callable[[Bench], None]:
    def run(bench: Bench) -> None:
        phase = "Failed" if code else "Succeeded"
        ended = {"exitCode": code, "finishedAt": time_text(bench.now)}
        _sets(pod, {"phase": phase}, {"terminated": ended})(bench)

    return run


def _sets(pod: Json, status: Json, state: Json | None = None) -> Callable[[Bench], None]:
    name, main = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
    containers = {"containerStatuses": [{"name": main, "state": state}]} if state else {}
    return lambda bench: _ignored(bench.store.set_status(PODS, name, NAMESPACE, {**status, **containers}))


def _deletes(pod: Json) -> Callable[[Bench], None]:
    return lambda bench: bench.store.delete(StoreKey(PODS, NAMESPACE, pod["metadata"]["name"]))


def _remove(obj: Json) -> Callable[[Bench], None]:
    return lambda bench: bench.store.remove(resource_of(obj), obj["metadata"]["name"], NAMESPACE)


def _loses(pod: Json) -> Callable[[Bench], None]:
    def run(bench: Bench) -> None:
        ready = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
        lost = {**ready, "lastTransitionTime": time_text(bench.now)}
        _sets(pod, {"phase": "Running", "conditions": [lost]}, {"running": {}})(bench)

    return run


def _unlabels(pod: Json) -> Callable[[Bench], None]:
    """Somebody takes it out of the job, to look at it."""
    metadata = {**pod["metadata"], "labels": {JOB_NAME: "none"}}
    return lambda bench: _ignored(bench.store.put({**pod, "metadata": metadata}))


def _again(pod: Json, count: int) -> Callable[[Bench], None]:
    def run(bench: Bench) -> None:
        last = {"terminated": {"exitCode": 1, "finishedAt": time_text(bench.now)}}
        main = {"name": pod["spec"]["containers"][0]["name"], "state": {"running": {}}, "lastState": last}
        status = {**pod["status"], "containerStatuses": [{**main, "restartCount": count}]}
        bench.store.set_status(PODS, pod["metadata"]["name"], NAMESPACE, status)

    return run


def _orphans(pod: Json) -> Callable[[Bench], None]:
    metadata = {**pod["metadata"], "ownerReferences": []}
    return lambda bench: _ignored(bench.store.put({**pod, "metadata": metadata}))


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


def _ignored(answer: object) -> None:
    del answer


def _conditions(job: Json) -> list[Json]:
    conditions: list[Json] = (job.get("status") or {}).get("conditions") or []
    return conditions


def strays(bench: Bench) -> bool:
    living = {each["metadata"]["uid"] for each in bench.store.objects()}
    owners = (controller_of(each) for each in bench.store.objects())
    return any(owner is not None and owner["uid"] not in living | {"other"} for owner in owners)


def stored_of(objects: dict[StoreKey, Stored]) -> Iterable[Json]:
    return (peek(each.raw) for each in objects.values())
