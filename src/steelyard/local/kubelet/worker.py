"""One Pod's life: looks at its manifest and its folder, does what `plan.decide` says, reports its status.

Level-triggered: every cause to look again (the API's object, a shim's start or end, a probe, a time) only wakes
the loop. A new kubelet's worker finds in the folder what the old one's left, and goes on.
"""

import asyncio
import logging
import shutil
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import ApiError, Conflict, NotFound
from steelyard.kube.resource import PODS, Json
from steelyard.local.kubelet import children, plan, records, shim, volumes
from steelyard.local.kubelet.addresses import Addresses, NoAddressLeft
from steelyard.local.kubelet.config import KubeletConfig
from steelyard.local.kubelet.env import ConfigMissing, Unsupported
from steelyard.local.kubelet.images import ImageMissing
from steelyard.local.kubelet.launch import HOST_IP, Launcher, fetch_objects, marker
from steelyard.local.kubelet.probes import Probes
from steelyard.local.kubelet.records import Failure, PodFolder, Run, Sandbox
from steelyard.local.kubelet.status import Observed, pod_status

log = logging.getLogger(__name__)
RETRY_SECONDS = 1.0  # a missing ConfigMap or image is looked for again


class PodWorker:
    """`run` ends when the Pod is gone from the API and nothing of it is left."""

    def __init__(
        self, cluster: Cluster, config: KubeletConfig, addresses: Addresses, pod: Json, *, mounts: bool
    ) -> None:
        self.cluster, self.config, self.addresses = cluster, config, addresses
        self.pod, self.gone = pod, False
        self.uid: str = pod["metadata"]["uid"]
        self.folder = PodFolder(config.pods / self.uid)
        self.launcher = Launcher(config, self.folder, mounts=mounts)
        self.wake = asyncio.Event()
        self.shims: dict[tuple[str, int], children.Child] = {}
        self.waiting: dict[str, tuple[str, str]] = {}
        self.probes = Probes(self.wake.set)
        self.runs: dict[str, Run | None] = {}
        self.sandbox: Sandbox | None = None
        self.written: Json | None = None
        self.asked_to_stop: float | None = None  # when, by the loop's clock

    # ---- told from outside

    def changed(self, pod: Json) -> None:
        self.pod = pod
        self.wake.set()

    def removed(self) -> None:
        self.gone = True
        self.wake.set()

    def fail(self, failure: Failure) -> None:
        """The Pod as a whole has failed; its processes are ended."""
        self.folder.fail(failure)
        self.wake.set()

    # ---- the loop

    async def run(self) -> None:
        try:
            while not await self._look():
                pass
        finally:
            self.probes.close()
            for child in self.shims.values():
                child.close()

    async def _look(self) -> bool:
        """One look and all that follows from it, then sleep until there is cause for another; True at the end."""
        self.wake.clear()
        try:
            pause = await (self._remove() if self.gone else self._step())
        except ApiError as error:
            log.warning("pod %s: %s", self.pod["metadata"]["name"], error)
            pause = RETRY_SECONDS
        if pause is not None and pause < 0:
            return True
        try:
            async with asyncio.timeout(pause):
                await self.wake.wait()
        except TimeoutError:
            pass
        return False

    async def _step(self) -> float | None:
        """Seconds until the next look; None: only when woken."""
        if self.sandbox is None and not self._make_sandbox():
            return None
        assert self.sandbox is not None
        now = datetime.now(UTC)
        self._observe()
        next_look = self._check_deadline(now)
        failure = self.folder.failure()
        todo = plan.decide(self.pod, self.runs, failure, now=now, crash_backoff=self.config.crash_backoff)
        if todo.stop:
            next_look = self._stop()
        self.waiting = {name: ("CrashLoopBackOff", self._back_off_message(name)) for name in todo.back_off}
        pauses = [next_look, self._until(todo.look_again, now), self._respawn()]
        if not self._deleting():
            pauses += [await self._begin(name, attempt) for name, attempt in todo.start]
        self._watch()
        await self._report(failure, ended=todo.ended)
        if todo.ended and self._deleting():
            await self._delete()
        return min((pause for pause in pauses if pause is not None), default=None)

    def _deleting(self) -> bool:
        return "deletionTimestamp" in self.pod["metadata"]

    def _until(self, moment: datetime | None, now: datetime) -> float | None:
        return max(0.0, (moment - now).total_seconds()) + 0.001 if moment else None

    def _back_off_message(self, name: str) -> str:
        run = self.runs[name]
        assert run is not None
        seconds = plan.back_off(run.attempt, self.config.crash_backoff)
        return f"back-off {seconds:g}s restarting failed container={name} pod={self.pod['metadata']['name']}"

    def _containers(self) -> list[Json]:
        return [*(self.pod["spec"].get("initContainers") or ()), *self.pod["spec"]["containers"]]

    def _make_sandbox(self) -> bool:
        """The Pod's folder and address; False when the Pod has ended before this kubelet ever saw it."""
        self.sandbox = self.folder.sandbox()
        if self.sandbox is not None:
            return True
        status = self.pod.get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            return False
        metadata, failure, ip = self.pod["metadata"], None, HOST_IP
        try:
            volumes.check(self.pod)
            if not self.pod["spec"].get("hostNetwork"):
                ip = self.addresses.take()
        except Unsupported as problem:
            failure = Failure("NotImplemented", str(problem))
        except NoAddressLeft as problem:
            failure = Failure("NoAddressLeft", str(problem), disruption=True)
        if status.get("podIP"):
            failure = Failure(
                records.LOST, "The Pod's folder is gone: nobody knows what ran.", disruption=True
            )
        started = shim.nanoseconds_text(time.time_ns())
        self.sandbox = Sandbox(metadata["namespace"], metadata["name"], self.uid, ip, started)
        self.folder.write_sandbox(self.sandbox)
        if failure:
            self.folder.fail(failure)
        return True

    def _observe(self) -> None:
        """Read how far each container's newest run has come; what a lost shim left behind is ended."""
        for container in self._containers():
            name = container["name"]
            known = self.runs.get(name)
            if (
                known is not None
                and known.state == "exited"
                and known.attempt + 1 == self.folder.attempts(name)
            ):
                continue
            run = self.folder.run(name)
            if run is not None and run.reason == records.LOST:
                children.kill_strays(marker(self.uid, name, run.attempt))
            self.runs[name] = run

    def _check_deadline(self, now: datetime) -> float | None:
        assert self.sandbox is not None
        end = plan.deadline(self.pod, self.sandbox.started_at)
        alive = any(run is None or run.state != "exited" for run in self.runs.values())
        if end is None or not alive or self.folder.failure():
            return None
        if now < end:
            return self._until(end, now)
        self.folder.fail(
            Failure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        )
        return None

    # ---- starting

    async def _begin(self, name: str, attempt: int) -> float | None:
        container = next(each for each in self._containers() if each["name"] == name)
        assert self.sandbox is not None
        try:
            objects = await fetch_objects(self.cluster, self.pod)
            intent = await asyncio.to_thread(
                self.launcher.prepare, self.pod, container, self.sandbox, objects, attempt
            )
        except ImageMissing as problem:
            self.waiting[name] = ("ErrImageNeverPull", str(problem))
            return RETRY_SECONDS
        except ConfigMissing as problem:
            self.waiting[name] = ("CreateContainerConfigError", str(problem))
            return RETRY_SECONDS
        except Unsupported as problem:
            self.fail(Failure("NotImplemented", f"container {name!r}: {problem}"))
            return 0.0
        except OSError as problem:
            self.waiting[name] = ("CreateContainerError", str(problem))
            return RETRY_SECONDS
        self._spawn(name, attempt, intent)
        self.runs[name] = Run(attempt, "intended")
        return None

    def _spawn(self, name: str, attempt: int, intent: Path) -> None:
        self.shims[name, attempt] = children.spawn(self.config.python, intent, self.wake.set)

    def _respawn(self) -> float | None:
        """Runs that were meant to begin but have no record yet, because a kubelet or a shim was killed meanwhile."""
        pause = None
        for name, run in self.runs.items():
            if run is None or run.state != "intended":
                continue
            child = self.shims.get((name, run.attempt))
            if child is not None and not child.ended:
                continue
            base = self.folder.base(name, run.attempt)
            if child is not None and child.exit_code not in (0, shim.BUSY):
                records.cancel(base, "StartError", records.tail_of(base.with_suffix(".shim")))
                self.wake.set()
            elif not records.is_locked(base) and not self._must_stop():
                self._spawn(name, run.attempt, base.with_suffix(".json"))
            else:
                pause = 0.1
        return pause

    def _watch(self) -> None:
        """Adopt the shims of running containers, forget those of ended ones, keep the probes in step."""
        running = {}
        for container in self._containers():
            name = container["name"]
            run = self.runs.get(name)
            if run is None or run.state != "running":
                continue
            running[name] = run
            if (name, run.attempt) not in self.shims:
                child = children.adopt(run.shim, run.shim_start, self.wake.set)
                if child is None:
                    self.wake.set()
                else:
                    self.shims[name, run.attempt] = child
        for key in [key for key, child in self.shims.items() if child.ended and not self._is_open(key)]:
            del self.shims[key]
        assert self.sandbox is not None
        self.probes.follow(self.pod, running, self.sandbox.ip)
        for name in self.probes.unhealthy:
            self._restart(name, running[name])

    def _is_open(self, key: tuple[str, int]) -> bool:
        run = self.runs.get(key[0])
        return run is not None and run.attempt == key[1] and run.state != "exited"

    # ---- stopping

    def _must_stop(self) -> bool:
        return self._deleting() or self.gone or self.folder.failure() is not None

    def _grace(self) -> float:
        metadata = self.pod["metadata"]
        default = self.pod["spec"].get("terminationGracePeriodSeconds", 30)
        return float(metadata.get("deletionGracePeriodSeconds", default))

    def _stop(self) -> float | None:
        """SIGTERM to every container, SIGKILL to their trees after the grace period."""
        now = asyncio.get_running_loop().time()
        self._cancel_unstarted()
        if self.asked_to_stop is None:
            self.asked_to_stop = now
            self._signal_all(signal.SIGTERM)
        left = self.asked_to_stop + self._grace() - now
        if left <= 0:
            self._signal_all(signal.SIGUSR2)
            return 1.0
        return left

    def _cancel_unstarted(self) -> None:
        for name, run in self.runs.items():
            if run is not None and run.state == "intended":
                base = self.folder.base(name, run.attempt)
                if records.cancel(base, "Cancelled", "the Pod ended before the container started"):
                    self.wake.set()

    def _signal_all(self, number: signal.Signals) -> None:
        self._watch()
        for child in self.shims.values():
            child.send(number)

    def _restart(self, name: str, run: Run) -> None:
        """End a container whose liveness or startup probe failed; its policy says whether it runs again."""
        child = self.shims.get((name, run.attempt))
        if child is not None:
            child.send(signal.SIGTERM)
            asyncio.get_running_loop().call_later(self._grace(), child.send, signal.SIGUSR2)

    # ---- the API

    async def _report(self, failure: Failure | None, *, ended: bool) -> None:
        previous = {
            name: self.folder.run(name, run.attempt - 1) if run is not None and run.attempt else None
            for name, run in self.runs.items()
        }
        observed = Observed(
            self.runs,
            previous,
            self.waiting,
            self.probes.ready,
            self.probes.started,
            failure,
            self.sandbox,
            ended,
        )
        status = pod_status(self.pod, observed, host_ip=HOST_IP, now=datetime.now(UTC))
        if status == self.written:
            return
        metadata = self.pod["metadata"]
        patch = {"metadata": {"uid": self.uid}, "status": status}
        try:
            self.pod = await self.cluster.patch(
                PODS, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        except (NotFound, Conflict):
            self.gone = True
            self.wake.set()
            return
        self.written = status

    async def _delete(self) -> None:
        metadata = self.pod["metadata"]
        try:
            await self.cluster.delete(
                PODS, metadata["name"], metadata["namespace"], uid=self.uid, grace_seconds=0
            )
        except (NotFound, Conflict):
            self.gone = True
            self.wake.set()

    async def _remove(self) -> float | None:
        """The API has no such Pod any more: end at once whatever runs, then drop its folder."""
        self.sandbox = self.sandbox or self.folder.sandbox()
        if self.sandbox is not None:
            self._observe()
        if any(run is not None and run.state != "exited" for run in self.runs.values()):
            self._cancel_unstarted()
            self._signal_all(signal.SIGUSR2)
            return 0.1
        await asyncio.to_thread(shutil.rmtree, self.folder.path, ignore_errors=True)
        return -1.0
