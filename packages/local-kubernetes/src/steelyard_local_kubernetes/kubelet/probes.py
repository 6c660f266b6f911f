"""Readiness, liveness and startup probes of one Pod's running containers."""

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.pods import all_container_statuses, sidecars
from steelyard_local_kubernetes.kubelet.records import PodFolder, Run
from steelyard_local_kubernetes.kubelet.shim_processes import program

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@dataclass(frozen=True)
class Probe:
    """One probe with Kubernetes' defaults filled in."""

    action: Json
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int

    @classmethod
    def parse(cls, raw: Json) -> "Probe":
        return cls(
            raw,
            raw.get("initialDelaySeconds", 0),
            raw.get("periodSeconds", 10),
            raw.get("timeoutSeconds", 1),
            raw.get("successThreshold", 1),
            raw.get("failureThreshold", 3),
        )


@dataclass(frozen=True)
class Target:
    """Address that a probe calls."""

    container: Json
    ip: str
    execute: tuple[str, ...]


def probe_target(folder: PodFolder, python: str, container: Json, run: Run, ip: str) -> Target:
    """Return where a probe or hook of a running container goes."""
    intent = folder.base(container["name"], run.attempt).with_suffix(".json")
    # Its program runs where the container runs: `exec_main` enters the container's namespaces.
    inside = (str(intent), str(run.pid), str(os.getpid()))
    return Target(container, ip, (python, "-I", "-S", "-c", program("exec_main"), *inside))


@dataclass
class _ProbeResults:
    """Results of the probes of one run."""

    attempt: int
    started: bool
    ready: bool
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Probes:
    """`follow` says what runs; `ready`, `started` and `unhealthy` are the results, `on_change` is then called."""

    def __init__(self, folder: PodFolder, python: str, on_change: Callable[[], None]) -> None:
        self.folder, self.python, self.on_change = folder, python, on_change
        self.unhealthy: set[str] = set()
        self._followed: dict[str, _ProbeResults] = {}

    @property
    def ready(self) -> dict[str, bool]:
        return {name: state.ready and state.started for name, state in self._followed.items()}

    @property
    def start_states(self) -> dict[str, bool]:
        return {name: state.started for name, state in self._followed.items()}

    def follow(self, pod: Json, running: Mapping[str, Run], ip: str) -> None:
        for name, state in list(self._followed.items()):
            run = running.get(name)
            if run is None or run.attempt != state.attempt:
                self._drop(name)
        for container in (*sidecars(pod), *pod["spec"]["containers"]):
            name = container["name"]
            if name in running and name not in self._followed:
                self._begin(pod, container, running[name], ip)

    def _begin(self, pod: Json, container: Json, run: Run, ip: str) -> None:
        statuses = {status["name"]: status for status in all_container_statuses(pod)}
        before = statuses.get(container["name"], {})
        # What an earlier kubelet reported of this very run still holds: a new kubelet must not take a
        # ready Pod out of its Services until its own first probe.
        adopted = before.get("restartCount") == run.attempt and "running" in mapping(before, "state")
        state = _ProbeResults(
            run.attempt,
            started="startupProbe" not in container or (adopted and before.get("started", False)),
            ready="readinessProbe" not in container or (adopted and before.get("ready", False)),
        )
        self._followed[container["name"]] = state
        for kind in PROBES:
            if container.get(kind):
                target = probe_target(self.folder, self.python, container, run, ip)
                state.tasks.append(asyncio.create_task(self._probe(kind, target, state)))

    def _drop(self, name: str) -> None:
        for task in self._followed.pop(name).tasks:
            task.cancel()
        self.unhealthy.discard(name)

    def close(self) -> None:
        for name in list(self._followed):
            self._drop(name)

    async def _probe(self, kind: str, target: Target, state: _ProbeResults) -> None:
        """Repeat one probe for as long as the run lives."""
        probe = Probe.parse(target.container[kind])
        await asyncio.sleep(probe.delay)
        in_a_row, last = 0, None
        while True:
            # Kubernetes' rule: until the startup probe has passed, no other probe is asked.
            if state.started or kind == "startupProbe":
                good = await answers(probe, target)
                in_a_row = in_a_row + 1 if good == last else 1
                last = good
                if in_a_row >= (probe.successes if good else probe.failures):
                    self._record_result(kind, target.container["name"], state, good=good)
                if kind == "startupProbe" and state.started:
                    return
            await asyncio.sleep(probe.period if state.started or kind == "startupProbe" else 0.1)

    def _record_result(self, kind: str, name: str, state: _ProbeResults, *, good: bool) -> None:
        before = (state.started, state.ready, name in self.unhealthy)
        if kind == "readinessProbe":
            state.ready = good
        elif not good:
            self.unhealthy.add(name)
        elif kind == "startupProbe":
            state.started = True
        if before != (state.started, state.ready, name in self.unhealthy):
            self.on_change()


def probe_port(value: int | str, container: Json) -> int:
    """A probe's port, by number or by the name of one of the container's ports."""
    if isinstance(value, int) or value.isdigit():
        return int(value)
    ports = {port.get("name"): port["containerPort"] for port in sequence(container, "ports")}
    return int(ports[value])


async def answers(probe: Probe, target: Target) -> bool:
    """Return whether the container passes the probe now."""
    try:
        async with asyncio.timeout(probe.timeout):
            if "httpGet" in probe.action:
                return await ask(probe.action["httpGet"], target)
            if "tcpSocket" in probe.action:
                return await _connects(probe.action["tcpSocket"], target)
            return await succeeds([*target.execute, *probe.action["exec"]["command"]])
    except (OSError, TimeoutError, ValueError, LookupError):
        return False


async def _connects(action: Json, target: Target) -> bool:
    _, writer = await asyncio.open_connection(
        action.get("host") or target.ip, probe_port(action["port"], target.container)
    )
    writer.close()
    return True


async def succeeds(command: list[str]) -> bool:
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdin=null, stdout=null, stderr=null)
    try:
        return await process.wait() == 0
    finally:
        # The probe ran out of time: a program that hangs would else stay, one for every period.
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ask(action: Json, target: Target) -> bool:
    # Kubernetes' kubelet does not verify certificates either: a probe asks
    # whether the program answers, not who it is.
    secure = ssl._create_unverified_context() if action.get("scheme") == "HTTPS" else None
    host, port = action.get("host") or target.ip, probe_port(action["port"], target.container)
    reader, writer = await asyncio.open_connection(host, port, ssl=secure)
    try:
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/steelyard", "Connection": "close"}
        headers |= {header["name"]: header["value"] for header in sequence(action, "httpHeaders")}
        lines = [
            f"GET {action.get('path') or '/'} HTTP/1.1",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        status = await reader.readline()
        # Kubernetes' bounds: a redirect counts as an answer. It is not followed here.
        return 200 <= int(status.split()[1]) < 400
    finally:
        writer.close()
