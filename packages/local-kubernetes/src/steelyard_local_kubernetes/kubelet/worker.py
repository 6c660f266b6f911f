"""The worker of one Pod: reads the Pod's manifest and folder, does what `plan.decide` says, and reports the status.

The kubelet starts one for each Pod. It is level-triggered: every cause to reconcile again (the API's object, a shim's
start or end, a probe, a time) only wakes its loop. A new kubelet's worker finds in the folder what the old one's left,
and goes on.
"""

import asyncio
import contextlib
import logging
import shutil
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from steelyard_common.awake import SleptSince, never_slept, utc_now
from steelyard_common.backoff import backoff_seconds
from steelyard_common.disk_space import no_room
from steelyard_common.types import Json, mapping
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError
from steelyard_kube.events import EventRecorder
from steelyard_kube.objects import read_status
from steelyard_kube.pods import list_containers
from steelyard_kube.refusals import BUSY
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.at_work import SET_ASIDE, AtWork, SetAside
from steelyard_local_kubernetes.gpus.assignments import Assignment
from steelyard_local_kubernetes.gpus.gpus import ANNOTATION, Gpus
from steelyard_local_kubernetes.gpus.ledger import Unavailable
from steelyard_local_kubernetes.kubelet import plan, records, shim, volumes
from steelyard_local_kubernetes.kubelet.abilities import Abilities
from steelyard_local_kubernetes.kubelet.addresses import Addresses, NoAddressLeft
from steelyard_local_kubernetes.kubelet.config import KubeletConfig
from steelyard_local_kubernetes.kubelet.containers import Containers
from steelyard_local_kubernetes.kubelet.env import ConfigMissing, Objects, UnsupportedField, VolumeMissing
from steelyard_local_kubernetes.kubelet.hooks import Hooks
from steelyard_local_kubernetes.kubelet.images import ImageMissing
from steelyard_local_kubernetes.kubelet.pod_object import PodObject
from steelyard_local_kubernetes.kubelet.preparation import HOST_IP, RunPreparer, fetch_objects
from steelyard_local_kubernetes.kubelet.probes import Probes
from steelyard_local_kubernetes.kubelet.records import Failure, PodFolder, Sandbox
from steelyard_local_kubernetes.kubelet.shim_processes import ForkServer, StartedShim
from steelyard_local_kubernetes.kubelet.shown_volumes import ShownVolumes
from steelyard_local_kubernetes.kubelet.status import ObservedPod, pod_status
from steelyard_local_kubernetes.kubelet.unapplied import list_unapplied
from steelyard_local_kubernetes.names.shown import PublishedNames
from steelyard_local_kubernetes.pod_traits import of_the_host
from steelyard_local_kubernetes.quantity import memory_limit
from steelyard_schema.variables import TooLarge

log = logging.getLogger(__name__)
NAMES_SECONDS = 2.0  # how long a Pod waits for its own name to be known
RETRY_SECONDS = 1.0  # a missing ConfigMap or image is looked for again
LONGEST_RETRY_SECONDS = 30.0
NO_GPU = "GPUUnavailable"
DEADLINE = Failure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
FOLDER_LOST = Failure(records.LOST, "The Pod's folder is gone: it is not known what ran.", disruption=True)


async def no_services(pod: Json) -> Objects:
    return {}


@dataclass(frozen=True)
class Node:
    """State that the Pods of a node share."""

    cluster: Cluster
    config: KubeletConfig
    addresses: Addresses
    events: EventRecorder
    shims: ForkServer
    can: Abilities
    gpus: Gpus
    shown: PublishedNames | None = None  # whose names are published, where names are kept
    slept: SleptSince = never_slept
    now: Callable[[], datetime] = utc_now
    services: Callable[[Json], Awaitable[Objects]] = no_services
    """The Services whose addresses a Pod is given, by kind and by namespace and name."""
    at_work: AtWork = field(default_factory=AtWork)


class PodWorker:
    """`run` ends when the Pod is gone from the API and nothing of it is left, or when it is idle."""

    def __init__(self, node: Node, pod: Json) -> None:
        self.node = node
        self.cluster, self.config, self.addresses = node.cluster, node.config, node.addresses
        self.events = node.events
        self.is_idle = False
        """True once the Pod has ended, the API shows it, and nothing is to be done before it changes again."""
        self.uid: str = pod["metadata"]["uid"]
        self.wake = asyncio.Event()
        self.folder = PodFolder(node.config.pods / self.uid)
        self.launcher = RunPreparer(node.config, self.folder, node.can, node.gpus)
        self.containers = Containers(node.shims, self.folder, self.wake.set)
        self.probes = Probes(self.folder, node.config.python, self.wake.set)
        self.hooks = Hooks(self.folder, node.config.python, self.containers, self.wake.set, self._warn)
        self.volumes = ShownVolumes(node.cluster, node.events, self.folder, self.launcher)
        self.object = PodObject(node.cluster, pod, self.wake.set, self.volumes.metadata_changed)
        self.waiting: dict[str, tuple[str, str]] = {}  # why a container has not started, as the API shows it
        self.sandbox: Sandbox | None = None
        self._faults = 0  # reconciliations in a row that have failed
        self._asked_to_stop: float | None = None  # when, by the loop's clock

    @property
    def pod(self) -> Json:
        """Newest known state of the Pod in the API."""
        return self.object.newest

    # ---- events from outside

    def note_object_change(self) -> None:
        """Note that a ConfigMap or Secret which a volume shows has changed."""
        self.volumes.are_stale = True
        self.wake.set()

    def _warn(self, reason: str, message: str) -> None:
        self.events.record(self.pod, "Warning", reason, message)

    def fail(self, failure: Failure) -> None:
        """The Pod as a whole has failed; its processes are ended."""
        self.folder.fail(failure)
        self.events.record(self.pod, "Warning", failure.reason, failure.message)
        self.wake.set()

    # ---- the loop

    async def run(self) -> None:
        try:
            while not await self._reconcile():
                pass
        finally:
            self.probes.close()
            self.hooks.close()
            self.containers.close()

    async def _reconcile(self) -> bool:
        """Reconcile once, then sleep until there is cause to do it again; return True at the end."""
        # First of all: a cause that comes during a reconciliation leads to another one at once.
        self.wake.clear()
        try:
            if self.object.gone and await self._remove():
                return True
            pause = 0.1 if self.object.gone else await self._step()
            if self.object.gone and self.node.gpus.is_held(self.uid):
                pause = RETRY_SECONDS  # the Pod that frees its GPUs wakes it
            self._faults = 0
            if self._nothing_left():
                return True
        except BUSY as error:
            # The API server may be about to restart. The containers run on, and
            # a later reconciliation does what this one could not.
            log.warning("pod %s: %s", self.pod["metadata"]["name"], error)
            pause = RETRY_SECONDS
        except ApiError as error:
            log.warning("pod %s: %s", self.pod["metadata"]["name"], error)
            self.events.record(self.pod, "Warning", "FailedSync", f"error syncing pod: {error.message}")
            pause = self._longer_pause()
        except Exception as error:  # noqa: BLE001
            # The outermost edge: whatever it is, it is this one Pod's, and its processes are not left alone for it.
            pause = self._after_fault(error)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self.wake.wait()
        return False

    def _nothing_left(self) -> bool:
        """Return whether the Pod is idle, and nothing has asked to reconcile it again."""
        # A shim that is about to end is waited for: its exit has to be collected.
        return self.is_idle and not (self.object.gone or self.wake.is_set() or self.containers.shim_pids())

    def _after_fault(self, error: Exception) -> float:
        """Report what went wrong; return the seconds until the next reconciliation."""
        name = self.pod["metadata"]["name"]
        # A full disk is no fault of this Pod. An event would need room itself,
        # and a line each second would fill the rest.
        if no_room(error):
            self._faults += 1
            if self._faults == 1:
                log.warning("pod %s waits for room on the disk: %s", name, error)
            return RETRY_SECONDS
        log.error("pod %s: a reconciliation has failed", name, exc_info=error)
        self.events.record(self.pod, "Warning", "FailedSync", f"{type(error).__name__}: {error}")
        return self._longer_pause()

    def _longer_pause(self) -> float:
        """Return the seconds until the next try, which are twice those of the last one."""
        self._faults += 1
        return backoff_seconds(self._faults, RETRY_SECONDS, LONGEST_RETRY_SECONDS)

    async def _step(self) -> float | None:
        """Do the work that is due; return the seconds until the next reconciliation, None for only when woken."""
        self.is_idle = False
        if self.sandbox is None and not await self._settle():
            return None
        assert self.sandbox is not None
        await self.containers.observe(container["name"] for container in self._containers())
        now = self.node.now()
        # Before the decision: a sidecar that has started lets the next container begin.
        self._probe(self.sandbox)
        failure, todo, requeue_after = self._decide(self.sandbox, now)
        # Made again each time: what a container waited for a moment ago may be there now.
        self.waiting = {name: ("CrashLoopBackOff", self._back_off_message(name)) for name in todo.back_off}
        for _, message in self.waiting.values():
            self.events.record(self.pod, "Warning", "BackOff", message)
        pauses = [requeue_after, _until(todo.requeue_at, now)]
        if todo.stop:
            pauses.append(self._stop())
        # A container that begins while its Pod is being deleted would be ended again, after it had its effect.
        elif not failure and not self._deleting():
            pauses.append(self.containers.begin_again())
            pauses += [await self._begin(self.sandbox, name, attempt) for name, attempt in todo.start]
        for name in todo.retire:
            self._end_container(name)
        if not todo.ended and self.containers.running():
            pauses.append(await self.volumes.renew_tokens(self.pod, now))
            pauses.append(await self.volumes.refresh(self.pod, self.sandbox))
        if todo.ended:
            self.node.gpus.release(self.uid)
            # Before the status: who sees that the Pod has ended may count on it.
            await self.volumes.remove_secrets(self.pod)
        await self._show_gpus()
        # The status before the deletion is confirmed: who watches the Pod learns how it ended.
        await self._report(self.sandbox, failure, ended=todo.ended)
        if todo.ended and self._deleting():
            await self.object.confirm_deletion()
        self.is_idle = todo.ended and not self._deleting()
        return min((pause for pause in pauses if pause is not None), default=None)

    def _decide(self, sandbox: Sandbox, now: datetime) -> tuple[Failure | None, plan.Plan, float | None]:
        """Decide what to do next, after the Pod's deadline was checked."""
        failure = self.folder.failure()
        todo = self._plan(failure, now)
        end = plan.deadline(self.pod, sandbox.started_at, self.node.slept)
        if end is None or failure or todo.ended:
            return failure, todo, None
        if now < end:
            return None, todo, _until(end, now)
        # On the disk before anything is stopped: a kubelet that dies in between must not
        # report the end by our signals as the program's own.
        self.fail(DEADLINE)
        failure = DEADLINE
        todo = self._plan(failure, now)
        return failure, todo, None

    def _plan(self, failure: Failure | None, now: datetime) -> plan.Plan:
        return plan.decide(
            self.pod,
            self.containers.runs,
            failure,
            now=now,
            crash_backoff=self.config.crash_backoff,
            started=self.probes.start_states,
        )

    def _deleting(self) -> bool:
        return "deletionTimestamp" in self.pod["metadata"]

    def _back_off_message(self, name: str) -> str:
        run = self.containers.runs[name]
        seconds = plan.back_off(run.attempt, self.config.crash_backoff) if run else 0
        return f"back-off {seconds:g}s restarting failed container={name} pod={self.pod['metadata']['name']}"

    def _containers(self) -> list[Json]:
        return list_containers(self.pod["spec"])

    # ---- starting

    async def _settle(self) -> bool:
        """Folder and address first: a Pod's names are out before its programs start."""
        self.sandbox = await self._make_sandbox()
        new = not read_status(self.pod).get("podIP") and not self._deleting()
        if self.sandbox and new and self.node.shown and self.sandbox.ip != HOST_IP:
            await self._report(self.sandbox, self.folder.failure(), ended=False)
            await self.node.shown.wait(self.sandbox.ip, NAMES_SECONDS)
        return self.sandbox is not None and not self.object.gone

    async def _make_sandbox(self) -> Sandbox | None:
        """The Pod's folder and address, made once; None when the Pod ended before this folder was."""
        # An address that was chosen stays the Pod's, also after a crash: its programs know it.
        if (known := self.folder.sandbox()) is not None:
            self.volumes.are_stale = True  # objects may have changed while no kubelet ran
            return known
        status = read_status(self.pod)
        if status.get("phase") in ("Succeeded", "Failed"):
            return None
        metadata, ip = self.pod["metadata"], HOST_IP
        # The API says that it ran; what it did is not known, and begun again it would do so twice.
        failure = FOLDER_LOST if status.get("podIP") else None
        try:
            volumes.check(self.pod)
            if not of_the_host(self.pod):
                ip = self.addresses.take()
        except UnsupportedField as problem:
            failure = Failure("NotImplemented", str(problem))
        except NoAddressLeft as problem:
            failure = Failure("NoAddressLeft", str(problem), disruption=True)
        started = shim.nanoseconds_text(int(self.node.now().timestamp() * 1e9))
        sandbox = Sandbox(metadata["namespace"], metadata["name"], self.uid, ip, started)
        # Durable before the status names the address: after a crash another Pod might get it.
        await asyncio.to_thread(self.folder.write_sandbox, sandbox)
        if failure:
            self.fail(failure)
        elif fields := list_unapplied(self.pod):
            self._warn("NotApplied", f"Without effect on this machine: {', '.join(fields)}")
        return sandbox

    async def _begin(self, sandbox: Sandbox, name: str, attempt: int) -> float | None:
        """Start a run, or say what it waits for; then the answer is when to try again."""
        try:
            # The record of the GPUs is on the disk before a program that uses them starts (a GPU
            # belongs to one Pod at a time, also after a crash).
            assignment = await self.node.gpus.assign(self.pod, self.folder.path)
            if assignment is not None and (failure := self._without_gpus(assignment)):
                self.fail(failure)
                return None
            pod = await self.volumes.with_account(self.pod)
            container = next(spec for spec in list_containers(pod["spec"]) if spec["name"] == name)
            objects = {**await fetch_objects(self.cluster, pod), **await self.node.services(pod)}
            arguments = (pod, container, sandbox, objects, attempt)
            # In a thread, because it writes files and waits for the disk, and for a process to fork: this loop
            # serves all Pods and renews the shims' lease.
            started = await asyncio.to_thread(self._start, *arguments)
        except ImageMissing as problem:
            self.waiting[name] = ("ErrImageNeverPull", str(problem))
        except VolumeMissing as problem:
            # The container stays ContainerCreating, as on a cluster, so nothing is noted as its reason.
            self._warn("FailedMount", str(problem))
        except ConfigMissing as problem:
            self.waiting[name] = ("CreateContainerConfigError", str(problem))
        except SetAside as problem:
            self.waiting[name] = (SET_ASIDE, str(problem))
        except Unavailable as problem:
            self.waiting[name] = (NO_GPU, str(problem))
        except (OSError, TooLarge) as problem:
            self.waiting[name] = ("CreateContainerError", str(problem))
        except UnsupportedField as problem:
            self.fail(Failure("NotImplemented", f"container {name!r}: {problem}"))
        else:
            self.containers.watch_run(name, attempt, started)
            self.events.record(self.pod, "Normal", "StartedShim", f"Started container {name}")
            return None
        if name in self.waiting:
            self.events.record(self.pod, "Warning", "Failed", ": ".join(self.waiting[name]))
        return RETRY_SECONDS

    def _start(
        self, pod: Json, container: Json, sandbox: Sandbox, objects: Objects, attempt: int
    ) -> StartedShim:
        """Prepare a run and start its shim."""
        with self.node.at_work.on(PODS, pod):
            intent = self.launcher.prepare(pod, container, sandbox, objects, attempt)
            # The intent is on the disk: a kubelet that dies here leaves a start that the next one finishes, and none
            # that is made twice.
            return self.node.shims.launch(intent)

    def _without_gpus(self, assignment: Assignment) -> Failure | None:
        """Return why no container of the Pod can start with its GPUs any more; another Pod can, with others."""
        if assignment.devices is None:
            return Failure(records.LOST, "The record of the Pod's GPUs is damaged.", disruption=True)
        if lost := self.node.gpus.find_lost(self.uid):
            return Failure("GPULost", f"{lost.uuid} ({lost.name}) is lost: {lost.fault}", disruption=True)
        return None

    async def _show_gpus(self) -> None:
        """Write on the Pod which GPUs it has, once, for `train describe` and people."""
        uuids = ",".join(self.node.gpus.uuids(self.uid))
        if not uuids or mapping(self.pod["metadata"], "annotations").get(ANNOTATION) == uuids:
            return
        if await self.object.annotate({ANNOTATION: uuids}):
            self.events.record(self.pod, "Normal", "GPUsAssigned", f"The Pod has {uuids}")

    def _probe(self, sandbox: Sandbox) -> None:
        """Probe the containers that run and whose hook after the start is done."""
        by_name = {container["name"]: container for container in self._containers()}
        running = {
            name: run
            for name, run in self.containers.running().items()
            if self.hooks.started(by_name[name], run, sandbox.ip, self._grace())
        }
        self.probes.follow(self.pod, running, sandbox.ip)
        for name in self.probes.unhealthy:
            # As in Kubernetes the container ends and not the Pod: the restart policy says what follows.
            if self._end_container(name):
                self.events.record(self.pod, "Warning", "Unhealthy", f"{name} failed its probe and is ended")

    # ---- stopping

    def _grace(self) -> float:
        metadata = self.pod["metadata"]
        default = self.pod["spec"].get("terminationGracePeriodSeconds", 30)
        return float(metadata.get("deletionGracePeriodSeconds", default))

    def _end_container(self, name: str) -> bool:
        """Ask one container to end; False where that is under way or it does not run."""
        run = self.containers.running().get(name)
        if run is None or self.sandbox is None:
            return False
        container = next(spec for spec in self._containers() if spec["name"] == name)
        return self.hooks.end(container, run, self.sandbox.ip, self._grace())

    def _stop(self) -> float:
        """SIGTERM to every container after its hook, to sidecars last; SIGKILL to their trees after the grace
        period.
        """
        now = asyncio.get_running_loop().time()
        self.containers.cancel_unstarted()
        # By the loop's clock, which no change of the time shortens. It is lost with the process: the next
        # kubelet asks again, and gives the whole grace period once more.
        if self._asked_to_stop is None:
            self._asked_to_stop = now
            self.events.record(self.pod, "Normal", "Killing", "Stopping the Pod's containers")
        for name in plan.next_to_end(self.pod, self.containers.runs):
            # One that is about to start has nothing that a hook could prepare.
            if name not in self.containers.running():
                self.containers.terminate(name)
            elif not self.containers.was_asked(name):
                self._end_container(name)
        left = self._asked_to_stop + self._grace() - now
        if left <= 0:
            self.containers.send(signal.SIGUSR2)
        return left if left > 0 else 0.5

    async def _remove(self) -> bool:
        """The API has no such Pod any more: end at once whatever runs, then drop its folder."""
        await self.containers.observe(container["name"] for container in self._containers())
        # The object is gone (a forced deletion, or an API server that was reset); its processes are not.
        if self.containers.alive():
            self.containers.cancel_unstarted()
            self.containers.send(signal.SIGUSR2)
            return False
        # The folder says who has the GPUs for as long as anybody holds them, also to the next kubelet.
        self.node.gpus.release(self.uid)
        if self.node.gpus.is_held(self.uid):
            return False
        sandbox = self.sandbox or self.folder.sandbox()
        # The folder first, the address last: an address that is given away while the folder names it would be taken
        # twice after a crash.
        await asyncio.to_thread(shutil.rmtree, self.folder.path, ignore_errors=True)
        if sandbox is not None and sandbox.ip != HOST_IP:
            self.addresses.release(sandbox.ip)
        return True

    @property
    def waits_for_gpus(self) -> bool:
        return any(reason == NO_GPU for reason, _ in self.waiting.values())

    # ---- what the guard asks for

    @property
    def ip(self) -> str:
        return self.sandbox.ip if self.sandbox else ""

    def memory_limits(self) -> dict[str, int]:
        """Bytes, by container."""
        limits = {container["name"]: memory_limit(container) for container in self._containers()}
        return {name: limit for name, limit in limits.items() if limit is not None}

    # ---- the API

    async def _report(self, sandbox: Sandbox, failure: Failure | None, *, ended: bool) -> None:
        """Write the Pod's status as it follows from its runs."""
        observed = ObservedPod(
            self.containers.runs,
            self.containers.previous(),
            self.waiting,
            self.probes.ready,
            self.probes.start_states,
            failure,
            sandbox,
            ended,
        )
        await self.object.write_status(pod_status(self.pod, observed, host_ip=HOST_IP, now=self.node.now()))


def _until(moment: datetime | None, now: datetime) -> float | None:
    """Seconds, a little more than there are, so that the moment has come when they are over."""
    return max(0.0, (moment - now).total_seconds()) + 0.001 if moment else None
