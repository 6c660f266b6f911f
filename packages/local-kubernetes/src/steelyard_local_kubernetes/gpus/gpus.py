"""The kubelet's GPUs: read from time to time, given to Pods at their start, taken back at their end."""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from steelyard_common.types import Json
from steelyard_kube.pods import list_containers
from steelyard_local_kubernetes.gpus import assignments
from steelyard_local_kubernetes.gpus.assignments import Assignment
from steelyard_local_kubernetes.gpus.devices import Device, Finder
from steelyard_local_kubernetes.gpus.ledger import Ledger, News
from steelyard_local_kubernetes.gpus.rules import GpuRules
from steelyard_local_kubernetes.quantity import container_requests, pod_requests

SNAPSHOT_SECONDS = 5.0  # between two snapshots of healthy GPUs
LONGEST_SECONDS = 60.0  # while there is no driver, or none that answers; the pause grows
SOONEST, LATEST = 0.1, 2.0  # between two snapshots while a GPU is to be freed, growing
ANNOTATION = "steelyard/gpus"
PREFIX = "gpu.steelyard/"  # of a Node's annotation for one GPU, before its UUID
_MARKER = b"STEELYARD_CONTAINER="

_log = logging.getLogger(__name__)


def nobody(news: News) -> None:
    """Do nothing with news."""


class Gpus:
    """The node's GPUs; `on_change` gets what a snapshot, an assignment or a Pod's end has changed."""

    def __init__(
        self, finder: Finder, rules: GpuRules, pods: Path, on_change: Callable[[News], None] = nobody
    ) -> None:
        self.finder, self.rules, self._pods, self.on_change = finder, rules, pods, on_change
        alone = rules.others == "wait"
        self.ledger = Ledger(rules.shares, wait_for_others=alone, owner_of=self._find_owner)
        self._begun = 0  # snapshots
        self._wake = asyncio.Event()
        self._updating = asyncio.Lock()
        for path in pods.iterdir() if pods.exists() else ():
            if path.is_dir() and (assignment := assignments.read(path)):
                self.ledger.hold(assignment)
        if absent := finder.absence():  # the first snapshot would say no more
            self.ledger.problem, self.ledger.has_snapshot = absent, True

    def _find_owner(self, pid: int) -> str:
        """The uid of the Pod whose container a process was started in; empty where that is unknown."""
        try:
            content = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return ""
        prefix = re.escape(f"{self._pods.absolute()}/".encode())
        match = re.search(rb"(?:^|\0)" + _MARKER + prefix + rb"([^/\0]+)/", content)
        return match[1].decode() if match else ""

    # ---- snapshots

    async def run(self) -> None:
        """Take snapshots again and again: more often while a GPU is to be freed, less while there is no driver."""
        soon, late = SOONEST, SNAPSHOT_SECONDS
        while True:
            absent = self.finder.absence()
            if absent != self.ledger.problem or not absent:
                await self.update()
            if not self.finder.has_driver():
                self._free(tuple(self.ledger.releasing))
            late = min(2 * late, LONGEST_SECONDS) if self.ledger.problem else SNAPSHOT_SECONDS
            freeing = bool(self.ledger.releasing) and not self.ledger.problem
            soon = min(2 * soon, LATEST) if freeing else SOONEST
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(soon if freeing else late):
                    await self._wake.wait()
            self._wake.clear()

    async def update(self) -> None:
        """Take a snapshot, and act on what it shows."""
        async with self._updating:
            self._begun += 1
            number = self._begun
            news = self.ledger.apply_snapshot(await self.finder.snapshot(), number)
        self._free(news.freed)
        for device in news.lost:
            _log.warning("GPU %s (%s) is lost: %s", device.uuid, device.name, device.fault)
        if news.changed:
            if self.ledger.problem:
                _log.warning("GPUs cannot be read: %s", self.ledger.problem)
            self.on_change(news)

    def _free(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self.ledger.forget(uid)
            assignments.free(self._pods / uid)

    # ---- the life of a Pod

    def count_requested(self, pod: Json) -> dict[str, int]:
        """The devices that a Pod asks for, by resource."""
        return assignments.select_devices(pod_requests(pod), self.finder.vendor)

    async def assign(self, pod: Json, folder: Path) -> Assignment | None:
        """The Pod's GPUs, chosen once; None where it asks for none. Raises Unavailable, and OSError of a full disk."""
        uid = pod["metadata"]["uid"]
        counts = self.count_requested(pod)
        if not counts:
            return None
        if uid not in self.ledger.held or not self.ledger.has_snapshot:
            await self.update()
        if uid in self.ledger.held:
            return self.ledger.held[uid]
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        assignment = self.ledger.choose(uid, name, counts)
        try:
            await asyncio.to_thread(assignments.write, folder, assignment)
        except OSError:
            self.ledger.forget(uid)
            raise
        self.on_change(News(changed=True))
        return assignment

    def release(self, uid: str) -> None:
        """The Pod has ended; nothing of it runs that its shims know of."""
        if uid in self.ledger.held and not self.finder.has_driver():
            self._free((uid,))  # no process can hold a GPU of a machine that has none any more
        if uid in self.ledger.held and uid not in self.ledger.releasing:
            self.ledger.release(uid, self._begun)
            self._wake.set()
            self.on_change(News(changed=True))

    def is_held(self, uid: str) -> bool:
        """Return whether the Pod's GPUs, if it has any, are not yet free."""
        return uid in self.ledger.held

    def find_lost(self, uid: str) -> Device | None:
        """A GPU of the Pod that is lost, if one is."""
        assignment = self.ledger.held.get(uid)
        devices = (self.ledger.devices.get(uuid) for uuid in (assignment.uuids if assignment else ()))
        return next((device for device in devices if device and device.fault), None)

    def uuids(self, uid: str) -> tuple[str, ...]:
        assignment = self.ledger.held.get(uid)
        return assignment.uuids if assignment else ()

    def variables(self, pod: Json, container: Json) -> dict[str, str]:
        """The variables of a container, which win over those of its manifest."""
        asks = {
            spec["name"]: assignments.select_devices(container_requests(spec), self.finder.vendor)
            for spec in list_containers(pod["spec"])
        }
        assignment = self.ledger.held.get(pod["metadata"]["uid"])
        if assignment is None or not asks[container["name"]]:
            # Where they cannot be counted no Pod could ask for one: then they are as open as without us.
            hidden = self.rules.unasked == "none" and not self.finder.absence()
            return self.finder.variables(()) if hidden else {}
        uuids = assignments.container_devices(pod, container["name"], assignment, asks)
        # Not known while the driver does not answer: then its UUID alone names it.
        known = [self.ledger.devices.get(uuid) or Device(uuid, "", "") for uuid in uuids]
        return self.finder.variables(known)

    # ---- in amounts and words

    def amounts(self, *, healthy: bool) -> dict[str, float]:
        return self.ledger.amounts(healthy=healthy)

    def sum_taken(self, promised: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        return self.ledger.sum_taken(promised)

    def explain(self, resource: str) -> str:
        """Say why no more of a resource can be had; empty where it is not one of ours."""
        return self.ledger.explain(resource) if resource.startswith(f"{self.finder.vendor}/") else ""

    def annotations(self) -> dict[str, str]:
        """Return the Node's annotations: all in JSON for programs, and a line for each GPU, as kubectl shows it."""
        entries, lines = [], {}
        for device in self.ledger.devices.values():
            pods = [assignment.pod for assignment in self.ledger.holders(device.uuid)]
            state = self.ledger.state(device)
            entry = {"uuid": device.uuid, "resource": device.resource, "name": device.name}
            entries.append({**entry, "memory": device.memory, "pods": pods, "state": state})
            lines[f"{PREFIX}{device.uuid}"] = f"{state} ({device.name})"
        return {ANNOTATION: json.dumps(entries), **lines} if entries else {}

    def condition(self) -> tuple[str, str, str] | None:
        """Status, reason and message of the Node's condition GPULost; None where no GPU was ever found."""
        if not self.ledger.devices:
            return None
        if self.ledger.problem:
            return "True", "GPUsUnknown", self.ledger.problem
        lost = [
            f"{device.uuid} ({device.name}): {device.fault}"
            for device in self.ledger.devices.values()
            if device.fault
        ]
        if lost:
            return "True", "GPULost", "; ".join(lost)
        return "False", "GPUsHealthy", "every GPU answers"

    async def close(self) -> None:
        await self.finder.close()
