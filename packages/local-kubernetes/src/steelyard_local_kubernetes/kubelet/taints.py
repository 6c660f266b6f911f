"""Deletes Pods that do not tolerate a NoExecute taint of the node, as Kubernetes' taint eviction controller does.

`kubelet.py` runs it and wakes it when the Node or a Pod changes. How long a Pod has stayed is counted from when this
process first saw the taint, so a restart gives it its tolerated seconds once more, as on a real cluster.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, Conflict, NotFound
from steelyard_kube.events import EventRecorder
from steelyard_kube.objects import is_deleting, read_conditions
from steelyard_kube.refusals import BUSY, Pauses
from steelyard_kube.resource import PODS
from steelyard_kube.workqueue import Backoff
from steelyard_local_kubernetes.kubelet.placement import has_taint, toleration_seconds

log = logging.getLogger(__name__)
RETRIES = Backoff(base=1.0, cap=10.0)
_TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


class EvictionContext(Protocol):
    """Part of a node that the eviction works with."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def events(self) -> EventRecorder: ...


class TaintEviction:
    """`pods` lists the Pods of the node, `node` is the Node as it is now."""

    def __init__(
        self,
        place: EvictionContext,
        pods: Callable[[], list[Json]],
        node: Callable[[], Json],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cluster, self.events = place.cluster, place.events
        self._pods, self._node, self._monotonic = pods, node, monotonic
        self._pauses: Pauses[str] = Pauses(monotonic)
        self._since: dict[str, float] = {}  # by uid, when a taint was first seen that ends the Pod some time
        self.wake = asyncio.Event()

    async def run(self) -> None:
        failures = 0
        while True:
            self.wake.clear()
            try:
                pause = await self.evict_some()
                failures = 0
            except ApiError as error:
                log.warning("evicting by taints: %s", error)
                pause, failures = RETRIES.delay(failures), failures + 1
            try:
                async with asyncio.timeout(pause):
                    await self.wake.wait()
            except TimeoutError:
                continue

    async def evict_some(self) -> float | None:
        """Delete the Pods whose time is over; seconds until the next one's is."""
        node, now = self._node(), self._monotonic()
        # Every change of a Pod leads here, and hardly ever has the node such a taint: the Pods are not looked through.
        if not has_taint(node, "NoExecute"):
            self._since.clear()
            return None
        limits = {
            pod["metadata"]["uid"]: (pod, limit)
            for pod in self._pods()
            if not is_deleting(pod) and (limit := toleration_seconds(pod, node)) is not None
        }
        for uid in [uid for uid in self._since if uid not in limits]:
            del self._since[uid]
        waits = []
        for uid, (pod, limit) in limits.items():
            left = self._since.setdefault(uid, now) + limit - now
            if left > 0:
                waits.append(left)
            elif not self._pauses.holds(uid):
                await self._evict(pod)
        if (pause := self._pauses.next_in()) is not None:
            waits.append(pause)
        return min(waits, default=None)

    async def _evict(self, pod: Json) -> None:
        metadata = pod["metadata"]
        name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
        others = [known for known in read_conditions(pod) if known.get("type") != _TARGET["type"]]
        self.events.record(
            pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {namespace}/{name}"
        )
        try:
            if _TARGET not in read_conditions(pod):
                patch = {"metadata": {"uid": uid}, "status": {"conditions": [*others, _TARGET]}}
                await self.cluster.patch(PODS, name, patch, namespace, subresource="status")
            await self.cluster.delete(PODS, name, namespace, uid=uid)
        except (NotFound, Conflict):
            return  # gone, or another Pod has the name
        except BUSY:
            raise
        except ApiError as error:
            # It is about this Pod: the others are evicted all the same.
            log.warning("evicting %s/%s: %s", namespace, name, error)
            self._pauses.begin(uid)
