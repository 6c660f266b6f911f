"""Moves of a training job's Pods in the exploration: they start, end, are evicted, deleted, lost, relabelled.

`scenario.py` asks which of it may come next.
"""

from collections.abc import Callable, Iterable

from steelyard.operator.simulation.exploration import Move
from steelyard.operator.simulation.simulator import Simulator
from steelyard.operator.training.labels import JOB_NAME
from steelyard.operator.training.simulation.job_simulation import NAMESPACE
from steelyard_common.types import Json, sequence
from steelyard_kube.objects import find_controller, read_status
from steelyard_kube.resource import PODS, find_resource
from steelyard_kube.store import Key as StoreKey
from steelyard_kube.times import format_time


def own_pods(simulator: Simulator) -> list[Json]:
    """Return the Pods of training jobs, with a controller or without one."""
    pods = simulator.objects(PODS)
    return [pod for pod in pods if (find_controller(pod) or {}).get("kind") != "Other"]


def pod_moves(pod: Json, job: Json | None) -> Iterable[Move]:
    """Return what may happen to a Pod next; `job` has the name of the Pod's owner now."""
    status, uid = read_status(pod), pod["metadata"]["uid"]
    lost = any(condition.get("reason") == "NodeNotReady" for condition in sequence(status, "conditions"))
    if pod["metadata"].get("deletionTimestamp"):
        # A Pod on a lost node stays; but one of a predecessor goes, as the cluster's garbage collector forces it.
        if not lost or job is None or (find_controller(pod) or {}).get("uid") != job["metadata"]["uid"]:
            yield Move("Pod is gone", 0, remove(pod))
        return
    if status.get("phase") == "Pending":
        yield Move("Pod starts", 0, _starts(pod))
        yield Move("Pod is deleted by hand", 1, _fell(uid, remove(pod)))
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


# ---- what each of them does


def _fell(uid: str, run: Callable[[Simulator], None], *facts: str) -> Callable[[Simulator], None]:
    def runs(simulator: Simulator) -> None:
        simulator.fact(f"fell {uid}", *facts)
        run(simulator)

    return runs


def _starts(pod: Json) -> Callable[[Simulator], None]:
    def run(simulator: Simulator) -> None:
        simulator.store.put({**pod, "spec": {**pod["spec"], "nodeName": "node"}})
        _sets(pod, {"phase": "Running"}, {"running": {}})(simulator)

    return run


def _ends(pod: Json, code: int) -> Callable[[Simulator], None]:
    def run(simulator: Simulator) -> None:
        phase = "Failed" if code else "Succeeded"
        ended = {"exitCode": code, "finishedAt": format_time(simulator.now)}
        _sets(pod, {"phase": phase}, {"terminated": ended})(simulator)

    return run


def _sets(pod: Json, status: Json, state: Json | None = None) -> Callable[[Simulator], None]:
    name, main = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
    containers = {"containerStatuses": [{"name": main, "state": state}]} if state else {}
    return lambda simulator: ignore(
        simulator.store.set_status(PODS, name, NAMESPACE, {**status, **containers})
    )


def _deletes(pod: Json) -> Callable[[Simulator], None]:
    return lambda simulator: simulator.store.delete(StoreKey(PODS, NAMESPACE, pod["metadata"]["name"]))


def remove(obj: Json) -> Callable[[Simulator], None]:
    return lambda simulator: simulator.store.remove(find_resource(obj), obj["metadata"]["name"], NAMESPACE)


def _loses(pod: Json) -> Callable[[Simulator], None]:
    def run(simulator: Simulator) -> None:
        ready = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
        lost = {**ready, "lastTransitionTime": format_time(simulator.now)}
        _sets(pod, {"phase": "Running", "conditions": [lost]}, {"running": {}})(simulator)

    return run


def _unlabels(pod: Json) -> Callable[[Simulator], None]:
    """A person takes it out of the job, to inspect it."""
    metadata = {**pod["metadata"], "labels": {JOB_NAME: "none"}}
    return lambda simulator: ignore(simulator.store.put({**pod, "metadata": metadata}))


def _again(pod: Json, count: int) -> Callable[[Simulator], None]:
    def run(simulator: Simulator) -> None:
        last = {"terminated": {"exitCode": 1, "finishedAt": format_time(simulator.now)}}
        main = {"name": pod["spec"]["containers"][0]["name"], "state": {"running": {}}, "lastState": last}
        status = {**pod["status"], "containerStatuses": [{**main, "restartCount": count}]}
        simulator.store.set_status(PODS, pod["metadata"]["name"], NAMESPACE, status)

    return run


def _orphans(pod: Json) -> Callable[[Simulator], None]:
    metadata = {**pod["metadata"], "ownerReferences": []}
    return lambda simulator: ignore(simulator.store.put({**pod, "metadata": metadata}))


def ignore(answer: object) -> None:
    del answer
