"""The process kubelet's entry points: `run_kubelet` along with the API server, `stop_all_pods` for `steelyard down`.

A worker per Pod does the work (worker.py); here they are started and woken by changes, and what all share is kept:
the informer, the scheduler, the lease that keeps shims alive, the guard over memory and addresses.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Protocol

from prometheus_client import Gauge

from steelyard_common.awake import SleptSince, never_slept, utc_now
from steelyard_common.figures import Figures
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists, ApiError
from steelyard_kube.events import EventRecorder
from steelyard_kube.informer import Informer, object_key
from steelyard_kube.objects import read_labels
from steelyard_kube.pods import active_index, is_terminal
from steelyard_kube.resource import NAMESPACES, NODES, PODS, SERVICES, Resource
from steelyard_kube.times import format_time
from steelyard_local_kubernetes.at_work import AtWork
from steelyard_local_kubernetes.faults import Faults
from steelyard_local_kubernetes.gpus.gpus import Gpus
from steelyard_local_kubernetes.gpus.ledger import News
from steelyard_local_kubernetes.gpus.nvidia import Nvidia
from steelyard_local_kubernetes.kubelet import heartbeat, node, service_links
from steelyard_local_kubernetes.kubelet.abilities import Abilities, abilities
from steelyard_local_kubernetes.kubelet.addresses import Addresses
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.ended_pods import EndedPods
from steelyard_local_kubernetes.kubelet.env import Objects
from steelyard_local_kubernetes.kubelet.guard import Guard
from steelyard_local_kubernetes.kubelet.placement import name_only
from steelyard_local_kubernetes.kubelet.preparation import HOST_IP
from steelyard_local_kubernetes.kubelet.records import PodFolder, Sandbox
from steelyard_local_kubernetes.kubelet.scheduler import Scheduler
from steelyard_local_kubernetes.kubelet.shim_processes import ForkServer, StepTemplate
from steelyard_local_kubernetes.kubelet.shown_objects import ShownObjects
from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods
from steelyard_local_kubernetes.kubelet.taints import TaintEviction
from steelyard_local_kubernetes.kubelet.worker import Node, PodWorker
from steelyard_local_kubernetes.names.shown import PublishedNames

__all__ = ["Abilities", "KubeletConfig", "abilities", "run_kubelet", "stop_all_pods"]

log = logging.getLogger(__name__)


class SharedPods(Protocol):
    """Cache of all Pods, with the index `unended`, that another part of the process keeps up to date."""

    def listen(self, listener: Callable[[Resource, Json | None, Json | None], None]) -> None: ...

    def informer(self, resource: Resource) -> Informer: ...


def _namespace(obj: Json) -> tuple[str]:
    return (obj["metadata"]["namespace"],)


class Kubelet:
    """State that the workers of a kubelet share."""

    def __init__(  # noqa: PLR0913 (what the process shares with its other parts)
        self,
        cluster: Cluster,
        config: KubeletConfig,
        can: Abilities,
        shown: PublishedNames | None,
        slept: SleptSince,
        faults: Faults | None = None,
        now: Callable[[], datetime] = utc_now,
        *,
        pods: SharedPods | None = None,
        at_work: AtWork | None = None,
    ) -> None:
        self.cluster, self.config, self.can, self.now = cluster, config, can, now
        self.faults = faults or Faults()
        self.events = EventRecorder(cluster, component="kubelet", instance=config.node, now=now)
        self.shims = ForkServer(config.python, StepTemplate(config.python, config.warm))
        self.addresses = Addresses(config.pods / ".addresses", config.network)
        sandboxes = (PodFolder(path).sandbox() for path in config.pods.iterdir() if path.is_dir())
        # Pods that outlived the last kubelet keep their addresses; without this the next new Pod would get one of
        # theirs.
        self.addresses.adopt(sandbox.ip for sandbox in sandboxes if sandbox and sandbox.ip != HOST_IP)
        finder = config.finder or Nvidia(config.gpus.library)
        self.gpus = Gpus(finder, config.gpus, config.pods, self._on_gpu_change)
        self._gpus_to_show = asyncio.Event()
        self.node = Node(
            cluster,
            config,
            self.addresses,
            self.events,
            self.shims,
            can,
            self.gpus,
            shown,
            slept,
            now,
            self._find_services,
            at_work or AtWork(),
        )
        self.workers: dict[str, tuple[PodWorker, asyncio.Task[None]]] = {}
        self.ended = EndedPods()
        self.shown_objects = ShownObjects(cluster)
        self.is_over = False
        """True once the kubelet has ended. A shared cache outlives it, and still calls its listener."""
        self._shared = pods
        self.informer = pods.informer(PODS) if pods else self._own_informer()
        self.nodes = Informer(cluster, NODES, on_change=lambda old, new: self._on_node_change())
        self.services = Informer(cluster, SERVICES, indexes={"namespace": _namespace})
        self.namespaces = Informer(cluster, NAMESPACES, on_change=lambda old, new: self.scheduler.wake.set())
        self.scheduler = Scheduler(
            self.node,
            # Ended Pods take nothing, and thousands of them would be looked through at each change of another.
            lambda: self.informer.by_index("unended", ""),
            self.faults,
            gpus=self.gpus,
            node_object=self._node_object,
            namespace_labels=self._namespace_labels,
        )
        self.taints = TaintEviction(self.node, self._pods, self._node_object)
        self.guard = Guard(config.interval, lambda: [worker for worker, _ in self.workers.values()])

    def _own_informer(self) -> Informer:
        indexes = {"unended": active_index}
        return Informer(self.cluster, PODS, indexes=indexes, on_change=self._hear, packed=is_terminal)

    def follow(self) -> list[Coroutine[None, None, None]]:
        """Subscribe to changes of Pods; return the coroutines that have to run for that."""
        if self._shared is None:
            return [self.informer.run()]

        def on_change(resource: Resource, old: Json | None, new: Json | None) -> None:
            if resource == PODS and not self.is_over:
                self._hear(old, new)

        # Every change of a Pod would else be read a second time, and every Pod kept twice.
        self._shared.listen(on_change)
        for pod in self.informer.items():
            self._hear(None, pod)
        return []

    def _hear(self, old: Json | None, new: Json | None) -> None:
        try:
            self._on_pod_change(old, new)
        except Exception:
            # One watch serves all Pods: an object that cannot be read must not end it for the others.
            log.exception(
                "a change of pod %s was not heard", (new or old or {}).get("metadata", {}).get("name")
            )
            self.faults.count("kubelet", "Pod")

    def _pods(self) -> list[Json]:
        """Return the Pods of the node; those that have ended as the watch shows them."""
        ended = (pod for pod in self.informer.items() if pod["metadata"]["uid"] in self.ended)
        return [*(worker.pod for worker, _ in self.workers.values()), *ended]

    def _node_object(self) -> Json:
        return self.nodes.get(None, self.config.node) or node.bare_node(self.config.node)

    async def _find_services(self, pod: Json) -> Objects:
        # A Pod may be known before the Services are: a container that starts then would never have their variables.
        await self.services.synced.wait()
        own = self.services.by_index("namespace", pod["metadata"]["namespace"])
        api = self.services.get(*service_links.API) if self.config.api else None
        services = service_links.select_services(pod, own, api)
        return {(SERVICES.kind, "/".join(object_key(service))): service for service in services}

    def _namespace_labels(self, namespace: str) -> Mapping[str, str]:
        return {**read_labels(self.namespaces.get(None, namespace)), **name_only(namespace)}

    def _on_node_change(self) -> None:
        self.scheduler.wake.set()
        self.taints.wake.set()

    def _on_pod_change(self, old: Json | None, new: Json | None) -> None:
        """The informer's word: an object came, changed or went; one made again under its name is another."""
        self.scheduler.wake.set()
        # A Pod that was deleted and made again between two events of a watch appears as one that changed.
        replaced = old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"])
        if old is not None and replaced:
            self._on_pod_gone(old)
        if new is None or new["spec"].get("nodeName") != self.config.node:
            return
        uid = new["metadata"]["uid"]
        if known := self.workers.get(uid):
            known[0].object.take_state(new)
            self.guard.wake.set()
            self.taints.wake.set()
        elif uid not in self.ended:
            self._begin(new)
        elif self.ended.concerns(new):
            self.ended.remove(uid)
            self._begin(new)

    def _on_pod_gone(self, pod: Json) -> None:
        """The API has this Pod no more: end what runs of it, and remove its folder."""
        uid = pod["metadata"]["uid"]
        if known := self.workers.get(uid):
            known[0].object.note_removal()
        elif self.ended.remove(uid):
            self._begin(pod, gone=True)

    def _on_gpu_change(self, news: News) -> None:
        """A GPU came, went, was given or is free: the Pods that wait for one try again."""
        self.scheduler.wake.set()
        self._gpus_to_show.set()
        for worker, _ in self.workers.values():
            # A deleted Pod keeps its folder until its GPUs are free, so its worker waits for that as well.
            if worker.waits_for_gpus or worker.uid in news.freed:
                worker.wake.set()
        for device in news.lost:
            message = f"{device.uuid} ({device.name}) is lost: {device.fault}"
            self.events.record(node.reference(self.config.node), "Warning", "GPULost", message)
            for assignment in self.gpus.ledger.holders(device.uuid):
                if known := self.workers.get(assignment.uid):
                    self.events.record(known[0].pod, "Warning", "GPULost", message)
        for device in news.back:
            message = f"{device.uuid} ({device.name}) answers again"
            self.events.record(node.reference(self.config.node), "Normal", "GPUBack", message)

    async def show_gpus(self) -> None:
        """Write the GPUs, and who has them, on the Node whenever they change."""
        written: Json = {}
        while True:
            await self._gpus_to_show.wait()
            self._gpus_to_show.clear()
            shown = node.gpu_fields(self.gpus)
            if shown == written:
                continue
            try:
                known = await self.cluster.get(NODES, self.config.node)
                now = format_time(self.now())
                metadata, status = node.patches_for_gpus(known, shown, now)
                await self.cluster.patch(NODES, self.config.node, {"metadata": metadata})
                await self.cluster.patch(NODES, self.config.node, {"status": status}, subresource="status")
                written = shown
            except ApiError as error:
                log.warning("the node's GPUs cannot be written: %s", error)
                self._gpus_to_show.set()
                await asyncio.sleep(1.0)

    def _begin(self, pod: Json, *, gone: bool = False) -> None:
        worker = PodWorker(self.node, pod)
        worker.object.gone = gone
        self.shown_objects.add(pod, worker.note_object_change)
        task = asyncio.create_task(self._follow(worker), name=f"pod {pod['metadata']['name']}")
        self.workers[worker.uid] = (worker, task)
        self.guard.wake.set()
        self.taints.wake.set()

    async def _follow(self, worker: PodWorker) -> None:
        """Let a worker run to its end, and remember the Pod where that was the end of the Pod's programs alone."""
        try:
            await worker.run()
        except Exception:
            log.exception("the worker of pod %s failed", worker.uid)
        finally:
            # In the same turn of the loop as the worker's last reconciliation: a change in between would reach no
            # worker.
            del self.workers[worker.uid]
            self.shown_objects.remove(worker.uid)
        if worker.is_idle:
            self.ended.add(worker.uid, *worker.object.versions)

    def remove_orphans(self) -> None:
        """Folders of Pods that the API does not have any more: end what runs in them."""
        known = self.informer.uids()
        for path in self.config.pods.iterdir():
            folder = PodFolder(path)
            # Only once the informer has a full list: with half of one, living Pods would be taken for orphans and
            # ended.
            if path.name not in known and path.is_dir():
                # Also where the record of the Pod is damaged, or was removed by a kubelet that died before the rest.
                sandbox = folder.sandbox() or Sandbox("", path.name, path.name, HOST_IP, "")
                containers = [{"name": name, "image": ""} for name in folder.containers()]
                metadata = {"name": sandbox.name, "namespace": sandbox.namespace, "uid": path.name}
                # The manifest went with the object; to end what runs, the containers' names are enough.
                self._begin({"metadata": metadata, "spec": {"containers": containers}}, gone=True)

    async def register(self) -> None:
        """Write the Node."""
        now = format_time(self.now())
        wanted = node.node_object(self.config.node, self.config.allocatable(), can=asdict(self.can), now=now)
        try:
            await self.cluster.create(NODES, wanted)
        except AlreadyExists:
            self._gpus_to_show.set()  # it may list GPUs of an earlier day
        # Kernel and user may be others than at an earlier start, so what the machine can do is written again.
        # Kubernetes ignores the status in a write of the object itself: it takes a write of its own.
        metadata = {key: wanted["metadata"][key] for key in ("labels", "annotations")}
        await self.cluster.patch(NODES, self.config.node, {"metadata": metadata})
        await self.cluster.patch(NODES, self.config.node, {"status": wanted["status"]}, subresource="status")

    async def renew_lease(self) -> None:
        """Renew the lease; as long as this runs, the shims keep their containers."""
        while True:
            try:
                self.config.lease.touch()
            except OSError as error:  # a full disk, for one: the shims are patient
                log.warning("%s cannot be renewed: %s", self.config.lease, error)
            # Five renewals in the time that a shim waits: a busy machine or a full disk may lose some of them.
            await asyncio.sleep(min(30.0, self.config.lease_seconds / 5))

    async def settle(self) -> None:
        """Begin work once the informer knows all Pods."""
        for informer in (self.informer, self.nodes, self.namespaces, self.services):
            await informer.synced.wait()
        self.remove_orphans()
        self.scheduler.wake.set()

    async def close(self) -> None:
        """Stop looking after the Pods, without touching them."""
        tasks = [task for _, task in self.workers.values()]
        await _cancel(tasks)
        self.shims.close()
        self.addresses.close()
        await self.gpus.close()


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """More than once where needed: `asyncio.wait_for` of Python 3.11 may swallow a cancellation."""
    pending = set(tasks)
    # A task that swallowed the first cancellation is still pending after a moment, and gets another.
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.1)


async def run_kubelet(  # noqa: PLR0913 (what the process shares with its other parts)
    cluster: Cluster,
    config: KubeletConfig,
    *,
    stop: asyncio.Event,
    shown: PublishedNames | None = None,
    slept: SleptSince = never_slept,
    faults: Faults | None = None,
    now: Callable[[], datetime] = utc_now,
    figures: Figures | None = None,
    pods: SharedPods | None = None,
    at_work: AtWork | None = None,
) -> None:
    """Runs the node's Pods until `stop`; then returns and leaves them running, for the next one to adopt.

    `pods` is a cache that the process has anyway; without one the kubelet keeps its own.
    """
    config.pods.mkdir(parents=True, exist_ok=True)
    # Intents and volumes hold the values of Secrets: no other user of the machine may read them.
    os.chmod(config.pods, 0o700)
    can = await abilities(config)
    kubelet = Kubelet(cluster, config, can, shown, slept, faults, now, pods=pods, at_work=at_work)
    if figures is not None:
        running = Gauge(
            "kubelet_running_pods", "Pods that have a sandbox on this node.", registry=figures.registry
        )
        running.set_function(lambda: sum(bool(worker.ip) for worker, _ in kubelet.workers.values()))
    await kubelet.register()
    parts = [*kubelet.follow(), kubelet.scheduler.run(), kubelet.guard.run()]
    parts += [kubelet.nodes.run(), kubelet.namespaces.run(), kubelet.services.run(), kubelet.taints.run()]
    parts += kubelet.shown_objects.parts()
    parts += [kubelet.renew_lease(), kubelet.settle(), kubelet.events.run()]
    parts += [kubelet.gpus.run(), kubelet.show_gpus()]
    parts += [heartbeat.renew_for_ever(cluster, config.node, now)]
    tasks = [asyncio.create_task(part) for part in parts]
    stopped = asyncio.create_task(stop.wait())
    try:
        kubelet.shims.begin()
        waiting = {stopped, *tasks}
        while not stopped.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                # A kubelet without its lease or its informer would seem alive and do nothing; the supervisor starts a
                # new one.
                task.result()  # a part that failed ends the kubelet with its error
    finally:
        kubelet.is_over = True
        await _cancel([*tasks])
        stopped.cancel()
        await kubelet.close()
