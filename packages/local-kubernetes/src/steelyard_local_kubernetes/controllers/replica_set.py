"""The ReplicaSet controller's decision: as many live Pods as asked for, and a status that counts them.

`sync.py` calls `decide` with the ReplicaSet and then its Pods as they are stored.
"""

from datetime import datetime
from itertools import islice

from steelyard_common.types import Json
from steelyard_kube.objects import read_labels, read_status
from steelyard_kube.pods import is_ready, read_phase
from steelyard_local_kubernetes.controllers.decision import (
    FAILURE,
    Decision,
    batch,
    most_pods,
    seconds_until,
    too_many_pods,
    with_condition,
)
from steelyard_local_kubernetes.controllers.pods import (
    choose_free_names,
    is_active,
    make_condition,
    matches,
    name_series,
    pod_from_template,
)


def decide(replica_set: Json, pods: list[Json], now: datetime, taken: set[str] | None = None) -> Decision:
    """Decide the actions for `replica_set`, whose own Pods are `pods`. `taken`: Pod names that belong
    to other objects.
    """
    if replica_set["metadata"].get("deletionTimestamp"):
        return Decision()
    active = [pod for pod in pods if is_active(pod)]
    most = most_pods(replica_set["spec"]["template"])
    difference = min(replicas(replica_set), most) - len(active)
    few = batch(len(pods))
    names = (taken or set()) | {pod["metadata"]["name"] for pod in pods}
    base = replica_set["metadata"]["name"]
    free = islice(choose_free_names(base, name_series(replica_set), names), min(max(difference, 0), few))
    create = [pod_from_template(replica_set, name, labels={}) for name in free]
    delete = sorted(active, key=_worth)[: min(max(-difference, 0), few)]
    status, wait = _status(replica_set, active, now)
    if failures := _failures(replica_set, most, difference, now):
        status["conditions"] = failures
    return Decision(
        status=status if status != read_status(replica_set) else None,
        create=tuple(create),
        delete=tuple(delete),
        requeue_after=wait,
        more=abs(difference) > few,
    )


def _failures(replica_set: Json, most: int, difference: int, now: datetime) -> list[Json]:
    """Return why Pods are not made that should be; what the API has refused stays said until they are there."""
    known = make_condition(replica_set, FAILURE)
    if replicas(replica_set) > most:
        said = too_many_pods(most)
        return with_condition([known] if known else [], said, now, stamp="lastTransitionTime")
    return [known] if known and difference > 0 else []


def replicas(owner: Json) -> int:
    """Return the desired number of replicas; one where none is given."""
    count = owner["spec"].get("replicas")
    return 1 if count is None else int(count)


def _worth(pod: Json) -> tuple[bool, bool, bool, str]:
    """Return a sort key by how little is lost with a Pod: unscheduled ones go first, then Pending ones, then
    unready ones, then young ones.
    """
    stamp = pod["metadata"].get("creationTimestamp") or ""
    newest_first = "".join(chr(0x10FFFF - ord(letter)) for letter in stamp)
    return bool(pod["spec"].get("nodeName")), read_phase(pod) == "Running", is_ready(pod), newest_first


def _status(replica_set: Json, active: list[Json], now: datetime) -> tuple[Json, float | None]:
    """The status, and the seconds until a Pod becomes available by mere time."""
    minimum = float(replica_set["spec"].get("minReadySeconds") or 0)
    ready = [pod for pod in active if is_ready(pod)]
    waits = [available_in(pod, minimum, now) for pod in ready]
    selector = {"matchLabels": read_labels(replica_set["spec"]["template"])}
    status: Json = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(matches(selector, pod["metadata"].get("labels")) for pod in active),
        "readyReplicas": len(ready),
        "availableReplicas": sum(wait <= 0 for wait in waits),
    }
    status = {key: value for key, value in status.items() if value or key == "replicas"}
    status["observedGeneration"] = replica_set["metadata"].get("generation", 1)
    return status, min((wait for wait in waits if wait > 0), default=None)


def available_in(pod: Json, minimum: float, now: datetime) -> float:
    """Seconds until a ready Pod counts as available (`minReadySeconds`); 0 or less when it does."""
    if minimum <= 0:
        return 0.0
    since = (make_condition(pod, "Ready") or {}).get("lastTransitionTime")
    return seconds_until(since, minimum, now) if since else minimum
