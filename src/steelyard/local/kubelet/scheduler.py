"""Binds Pods to the one node, by priority and then oldest first; one that fits does not wait for one that does not."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from steelyard.kube.errors import ApiError, Conflict, NotFound
from steelyard.kube.resource import PODS, Json
from steelyard.local.kubelet import node as fits
from steelyard.local.kubelet.quantity import requests_of
from steelyard.local.kubelet.status import with_times
from steelyard.local.kubelet.worker import Node

log = logging.getLogger(__name__)


class Scheduler:
    """Looks whenever a Pod changed; `pods` lists what the API has."""

    def __init__(self, node: Node, pods: Callable[[], list[Json]]) -> None:
        self.cluster, self.config, self.events = node.cluster, node.config, node.events
        self.pods = pods
        self.wake = asyncio.Event()
        self._bound: dict[str, Json] = {}  # what the informer may not have seen yet
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            try:
                await self._bind_all()
            except ApiError as error:
                log.warning("scheduling: %s", error)
                await asyncio.sleep(1)
                self.wake.set()

    async def _bind_all(self) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in self.pods()}
        self._bound = {
            uid: pod
            for uid, pod in self._bound.items()
            if uid in pods and not pods[uid]["spec"].get("nodeName")
        }
        pods |= self._bound
        allocatable = self.config.allocatable()
        taken = fits.used(pods.values(), self.config.node)
        waiting = [pod for pod in pods.values() if _waits(pod)]
        for pod in sorted(waiting, key=_turn):
            missing = fits.why_not(pod, taken, allocatable, self.config.node)
            if missing:
                await self._refuse(pod, missing)
                continue
            if await self._bind(pod):
                for name, amount in requests_of(pod).items():
                    taken[name] = taken.get(name, 0.0) + amount

    async def _bind(self, pod: Json) -> bool:
        metadata = pod["metadata"]
        patch = {"metadata": {"uid": metadata["uid"]}, "spec": {"nodeName": self.config.node}}
        try:
            bound = await self.cluster.patch(PODS, metadata["name"], patch, metadata["namespace"])
        except (NotFound, Conflict):
            return False
        self._bound[metadata["uid"]] = bound
        self._told.pop(metadata["uid"], None)
        assigned = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {self.config.node}"
        self.events.record(pod, "Normal", "Scheduled", assigned)
        return True

    async def _refuse(self, pod: Json, message: str) -> None:
        metadata = pod["metadata"]
        if self._told.get(metadata["uid"]) == message:
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        known = (pod.get("status") or {}).get("conditions") or []
        status = {"phase": "Pending", "conditions": with_times([condition], known, now)}
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        try:
            await self.cluster.patch(
                PODS, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        except (NotFound, Conflict):
            return
        self._told[metadata["uid"]] = message
        self.events.record(pod, "Warning", "FailedScheduling", message)


def _turn(pod: Json) -> tuple[int, str, str]:
    metadata = pod["metadata"]
    return -int(pod["spec"].get("priority") or 0), metadata["creationTimestamp"], metadata["name"]


def _waits(pod: Json) -> bool:
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    own = pod["spec"].get("schedulerName", "default-scheduler") == "default-scheduler"
    return (
        own and not ended and not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    )
