"""Binds Pods to the one node: by priority, then namespace by namespace, then oldest first.

The kubelet runs it. Namespaces take turns by what they hold already: one with thousands of Pods does not keep another
waiting. All starts share one kubelet, so only so many Pods of one namespace are bound as may start at once. An owner of
many Pods leaves room on the node to other namespaces, where there are any. A Pod that fits does not wait for one that
does not. What one Pod holds concerns that Pod alone.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, Conflict, NotFound
from steelyard_kube.events import EventRecorder
from steelyard_kube.objects import owner_references, read_conditions, read_status
from steelyard_kube.refusals import BUSY, Pauses
from steelyard_kube.resource import PODS
from steelyard_kube.times import format_time
from steelyard_kube.workqueue import Backoff
from steelyard_local_kubernetes.faults import Faults
from steelyard_local_kubernetes.gpus.gpus import Gpus
from steelyard_local_kubernetes.kubelet import node as fits
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.placement import (
    NamespaceLabels,
    Residents,
    ensure_readable,
    is_gated,
    name_only,
    refusal,
)
from steelyard_local_kubernetes.kubelet.status import with_times
from steelyard_local_kubernetes.quantity import pod_requests

log = logging.getLogger(__name__)
STARTING = 32  # Pods of one namespace that are bound and have not yet begun to run
START_SECONDS = (
    10.0  # after which a Pod that waits for a ConfigMap or an image does not keep others from starting
)
CROWD = 8  # Pods of one owner, from which on its further ones leave room to other namespaces
BATCH = 32  # Pods bound, and Pods refused, before the order is looked at again
SHARE = 4.0  # pause after a pass, as a multiple of the time for which it kept the event loop to itself
RETRY_SECONDS = 1.0
RETRIES = Backoff(base=RETRY_SECONDS, cap=10.0)  # of all that a server that is busy does not take
REFUSED = "refused"  # the message for a Pod that will not be tried again
GATED = "SchedulingGated"
_ENDED = ("Succeeded", "Failed")


def utc_now() -> datetime:
    return datetime.now(UTC)


class NodeContext(Protocol):
    """Interface of the node that the scheduler works with."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def config(self) -> KubeletConfig: ...

    @property
    def events(self) -> EventRecorder: ...


class Scheduler:
    """Schedules whenever a Pod changed; `pods` lists what the API has."""

    def __init__(  # noqa: PLR0913 (all but two have defaults that fit a test)
        self,
        node: NodeContext,
        pods: Callable[[], list[Json]],
        faults: Faults | None = None,
        now: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
        gpus: Gpus | None = None,
        *,
        node_object: Callable[[], Json] | None = None,
        namespace_labels: NamespaceLabels = name_only,
    ) -> None:
        self._gpus = gpus
        self.node_object = node_object or partial(fits.bare_node, node.config.node)
        self.namespace_labels = namespace_labels
        self._monotonic = monotonic
        self._begun: dict[str, float] = {}  # by uid, when a Pod was bound that does not yet run
        self._crowded = False  # a Pod waits for others of its namespace to start
        self._took = 0.0  # seconds in which the last pass kept the loop to itself
        self.cluster, self.config, self.events = node.cluster, node.config, node.events
        self.pods, self.faults, self.now = pods, faults or Faults(), now
        self.wake = asyncio.Event()
        self._bound: dict[str, Json] = {}  # what the informer may not have seen yet
        self._pauses: Pauses[str] = Pauses(monotonic)  # of Pods whose binding the API has refused
        self._reported: dict[str, str] = {}  # by uid, what was reported that a Pod lacks
        self._asked: dict[str, dict[str, float] | None] = {}  # by uid; None for a Pod that cannot be read

    async def run(self) -> None:
        failures = 0
        while True:
            await self.wake.wait()
            self.wake.clear()
            self._took = 0.0
            try:
                more = await self.bind_some()
                failures = 0
            except Exception as error:
                seconds = RETRIES.delay(failures)
                failures, more = failures + 1, True
                if isinstance(error, ApiError):
                    log.warning("scheduling: %s; again in %.0f s", error, seconds)
                else:
                    log.exception("scheduling failed; again in %.0f s", seconds)
                    self.faults.count("scheduler", "Pod")
                await asyncio.sleep(seconds)
            if more:
                self.wake.set()
            # No change may ever come that wakes this loop: a Pod that waits for a
            # ConfigMap gives up its turn by the clock.
            elif self._crowded:
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self.wake.set)
            elif (pause := self._pauses.next_in()) is not None:
                asyncio.get_running_loop().call_later(pause, self.wake.set)
            await asyncio.sleep(min(SHARE * self._took, RETRY_SECONDS))

    async def bind_some(self) -> bool:
        """Bind a batch of what fits, and report what a batch of the others lacks; return whether there is more."""
        began = self._monotonic()
        pods = self._schedulable()
        node, residents = self.node_object(), Residents(namespace_labels=self.namespace_labels)
        taken, held, owned = self._in_use(pods.values(), residents)
        shared = len({pod["metadata"]["namespace"] for pod in pods.values()}) > 1
        devices = self._gpus.amounts(healthy=True) if self._gpus is not None else {}
        allocatable = self.config.allocatable() | devices
        waiting = [
            pod
            for pod in pods.values()
            if _waits(pod)
            and not is_gated(pod)
            and self._reported.get(pod["metadata"]["uid"]) != REFUSED
            and not self._pauses.holds(pod["metadata"]["uid"])
            and self._readable(pod)
        ]
        late = self._monotonic() - START_SECONDS
        self._begun = {
            uid: at
            for uid, at in self._begun.items()
            if at > late and uid in pods and read_status(pods[uid]).get("phase") in (None, "", "Pending")
        }
        starting = Counter(pods[uid]["metadata"]["namespace"] for uid in self._begun)
        chosen, lacking, self._crowded = list[Json](), [], False
        for pod in in_turn(waiting, held):
            namespace = pod["metadata"]["namespace"]
            if len(chosen) == BATCH:
                self._took = self._monotonic() - began
                await self._bind_all(chosen)
                return True
            if starting[namespace] >= STARTING:
                self._crowded = True
                continue
            amounts = self._asked[pod["metadata"]["uid"]] or {}
            missing = fits.make_lack(refusal(pod, node, residents)) or fits.find_lack(
                taken, allocatable, amounts, self._explain
            )
            if not missing and shared and owned[_owner(pod)] >= CROWD:
                missing = fits.no_room_beside_others(taken, allocatable, amounts)
            if missing:
                lacking.append((pod, missing))
            else:
                chosen.append(pod)
                starting[namespace] += 1
                owned[_owner(pod)] += 1
                residents.add(pod)
                _add(taken, amounts)
        self._took = self._monotonic() - began
        await self._bind_all(chosen)
        more = await self._refuse_some(lacking)
        await self._refuse_unreadable(pods)
        await self._hold_gated(pods)
        return more

    async def _refuse_some(self, lacking: Sequence[tuple[Json, fits.Lack]]) -> bool:
        """Report what a batch of Pods lacks; return whether there are more of them."""
        # A few learn whenever a GPU changes hands; for a crowd that would be a write for each of them.
        few = len(lacking) <= BATCH
        reasons = [
            (pod, lack, f"{lack.kind}: {lack.holders}" if few and lack.holders else lack.kind)
            for pod, lack in lacking
        ]
        news = [entry for entry in reasons if self._reported.get(entry[0]["metadata"]["uid"]) != entry[2]]
        for pod, missing, reason in news[:BATCH]:
            await self._refuse(pod, "Unschedulable", missing.text, reason)
        return len(news) > BATCH

    def _schedulable(self) -> dict[str, Json]:
        # A Pod without a spec can never be scheduled, and it gets no status either.
        pods = {
            pod["metadata"]["uid"]: pod
            for pod in self.pods()
            if isinstance(pod.get("spec"), dict) and isinstance(pod.get("status") or {}, dict)
        }
        # What was bound counts until the informer shows it: a cache that lags would give the same room twice.
        self._bound = {
            uid: pod
            for uid, pod in self._bound.items()
            if uid in pods and not pods[uid]["spec"].get("nodeName")
        }
        self._reported = {uid: text for uid, text in self._reported.items() if uid in pods}
        self._asked = {uid: amounts for uid, amounts in self._asked.items() if uid in pods}
        return pods | self._bound

    def _in_use(
        self, pods: Iterable[Json], residents: Residents
    ) -> tuple[dict[str, float], Counter[str], Counter[str]]:
        """Return what the Pods on the node that have not ended take of it, and how many each namespace and
        owner has.
        """
        taken: dict[str, float] = {}
        held: Counter[str] = Counter()
        owned: Counter[str] = Counter()
        promised: dict[str, dict[str, float]] = {}
        for pod in pods:
            if (
                pod["spec"].get("nodeName") == self.config.node
                and not _has_ended(pod)
                and self._readable(pod)
            ):
                amounts = promised[pod["metadata"]["uid"]] = self._asked[pod["metadata"]["uid"]] or {}
                _add(taken, amounts)
                held[pod["metadata"]["namespace"]] += 1
                owned[_owner(pod)] += 1
                residents.add(pod)
        if self._gpus is not None:
            # A GPU is taken until no process holds it, whatever has become of its Pod.
            taken |= self._gpus.sum_taken(promised)
        return taken, held, owned

    def _explain(self, resource: str) -> str:
        return (self._gpus.explain(resource) if self._gpus is not None else "") or fits.no_devices(resource)

    def _readable(self, pod: Json) -> bool:
        uid = pod["metadata"]["uid"]
        if uid not in self._asked:
            try:
                ensure_readable(pod, self.node_object())
                self._asked[uid] = pod_requests(pod)
            except Exception:
                log.exception("pod %s cannot be scheduled", pod["metadata"]["name"])
                self.faults.count("scheduler", "Pod")
                self._asked[uid] = None
        return self._asked[uid] is not None

    async def _bind_all(self, pods: list[Json]) -> None:
        """Bind side by side: writes of one turn of the server share a flush to its disk."""
        outcomes = await asyncio.gather(*map(self._bind, pods), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _bind(self, pod: Json) -> None:
        metadata = pod["metadata"]
        # The uid is a precondition: a Pod made again under the name may ask for more than there is.
        patch = {"metadata": {"uid": metadata["uid"]}, "spec": {"nodeName": self.config.node}}
        try:
            bound = await self.cluster.patch(PODS, metadata["name"], patch, metadata["namespace"])
        except (NotFound, Conflict):
            return  # the room that it was counted for is free in the next pass
        except BUSY:
            raise
        except ApiError as error:
            # It is about this Pod: the others are bound all the same.
            self._pauses.begin(metadata["uid"])
            kind = f"refused: {error.status}"
            if self._reported.get(metadata["uid"]) != kind:
                await self._refuse(pod, "SchedulerError", f"The Pod cannot be bound: {error.message}", kind)
            return
        self._pauses.forget(metadata["uid"])
        self._bound[metadata["uid"]] = bound
        self._begun[metadata["uid"]] = self._monotonic()
        self._reported.pop(metadata["uid"], None)
        assigned = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {self.config.node}"
        self.events.record(pod, "Normal", "Scheduled", assigned)

    async def _refuse_unreadable(self, pods: dict[str, Json]) -> None:
        for uid, amounts in list(self._asked.items()):
            if amounts is None and uid not in self._reported and _waits(pods[uid]):
                text = "0/1 nodes are available: what the Pod asks for cannot be read."
                await self._refuse(pods[uid], "SchedulerError", text, REFUSED)

    async def _hold_gated(self, pods: dict[str, Json]) -> None:
        """Say of Pods with gates that they are not even looked at; there is no event about it, as on a cluster."""
        for pod in pods.values():
            if _waits(pod) and is_gated(pod) and self._reported.get(pod["metadata"]["uid"]) != GATED:
                text = "Scheduling is blocked due to non-empty scheduling gates"
                await self._refuse(pod, GATED, text, GATED)

    async def _refuse(self, pod: Json, reason: str, message: str, kind: str) -> None:
        metadata = pod["metadata"]
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        known = [condition for condition in read_conditions(pod) if condition.get("type")]
        now = format_time(self.now())
        status = {"phase": "Pending", "conditions": with_times([condition], known, now)}
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        try:
            await self.cluster.patch(
                PODS, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        except (NotFound, Conflict):
            return
        except BUSY:
            raise
        except ApiError as error:  # the event says it all the same
            log.warning("the status of pod %s is refused: %s", metadata["name"], error)
        self._reported[metadata["uid"]] = kind
        if reason != GATED:
            self.events.record(pod, "Warning", "FailedScheduling", message)


def in_turn(waiting: Iterable[Json], held: Counter[str]) -> list[Json]:
    """The order in which Pods are given room: the higher priority first; of equal ones, the namespace that has the
    least by then; in a namespace, the oldest."""
    turns, places = [], Counter(held)
    for pod in sorted(waiting, key=_age):
        namespace = pod["metadata"]["namespace"]
        turns.append(((-_priority(pod), places[namespace], *_age(pod)[1:]), pod))
        places[namespace] += 1
    return [pod for _, pod in sorted(turns, key=lambda turn: turn[0])]


def _owner(pod: Json) -> str:
    """The uid of what controls the Pod; its own where nothing does."""
    owners = owner_references(pod)
    return next(
        (str(owner["uid"]) for owner in owners if owner.get("controller")), str(pod["metadata"]["uid"])
    )


def _age(pod: Json) -> tuple[int, str, str, str]:
    metadata = pod["metadata"]
    return -_priority(pod), metadata.get("creationTimestamp") or "", metadata["name"], metadata["uid"]


def _priority(pod: Json) -> int:
    value = pod["spec"].get("priority")
    # A Pod that an older version stored may hold anything here; it must not stop the others.
    return value if isinstance(value, int) else 0


def _add(taken: dict[str, float], amounts: dict[str, float]) -> None:
    for name, amount in amounts.items():
        taken[name] = taken.get(name, 0.0) + amount


def _has_ended(pod: Json) -> bool:
    return read_status(pod).get("phase") in _ENDED


def _waits(pod: Json) -> bool:
    own = pod["spec"].get("schedulerName", "default-scheduler") == "default-scheduler"
    unbound = not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    return own and unbound and not _has_ended(pod)
