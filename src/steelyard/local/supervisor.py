"""`steelyard up`: keeps Kubernetes, the operator and the platform of one state folder running, until it is asked to
end.

`cli/up.py` calls `supervise`; `steelyard run` and tests call `start_detached` and `stop` of `detached.py`, which are
re-exported here. Who runs where: the supervisor holds the folder's lock and the network's claim; its children, each
in a session of its own, hold the other end of a socket and end when the supervisor does. Pods live on under their
shims and are adopted by the next Kubernetes process.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.local import machine
from steelyard.local.detached import running, start_detached, stop
from steelyard.local.files import check_images, new_kubernetes, prepare
from steelyard.local.images import prepare_images, write_progress
from steelyard.local.kept_process import KeptProcess, Program, service
from steelyard.local.leftovers import PATIENCE, end_leftovers
from steelyard.local.platform_identity import load_identity
from steelyard.local.room import RoomWatch
from steelyard.local.runners.images import enter_installed
from steelyard.local.sleeps import SleepRecord
from steelyard.local.state import (
    Ready,
    Record,
    StateDir,
    process_start,
    read_platform,
    read_record,
    token_for_terminal,
    write_ready,
    write_record,
)
from steelyard_common.disk_space import no_room
from steelyard_common.errors import Refused, UsageError
from steelyard_common.lock import FileLock, LockHeld
from steelyard_local_kubernetes.at_work import set_aside_in
from steelyard_local_kubernetes.network import Network, claim, claims_folder

__all__ = ["Options", "running", "start_detached", "stop", "supervise"]

START_SECONDS = 120.0
"""Seconds within which a part starts, on a machine that is busy with other work: 45 have been seen. One that
ends is noticed at once.
"""
END_SECONDS = 30.0
LOCK_SECONDS = 1.0  # a process that only checks whether the lock is held holds it for a moment

STARTED = (("kubernetes",), ("operator", "platform"))
"""The parts, in the order of their start; those of a group start, and end, at the same time."""


@dataclass(frozen=True)
class Options:
    """Options of `steelyard up`."""

    state: StateDir
    port: int = 0  # of Kubernetes; 0: the last run's, or a free one
    api_port: int = 0  # of the platform's API, likewise
    settings: Path | None = None
    ready_file: Path | None = None
    without: tuple[str, ...] = ()  # parts and services that are left out
    new_kubernetes: bool = False  # begin with an empty database of Kubernetes


class Up:
    """One run on one folder; the record in the folder always says what of it lives."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.options, self.state, self.say = options, options.state, say
        self.record = Record()
        self.children: list[KeptProcess] = []
        self.leave_pods = False
        self.room = RoomWatch(_folders(options), say)
        self.sleeps = SleepRecord(options.state)
        self._kept = Record()  # what the folder's record says

    async def run(self, stop: asyncio.Event) -> None:
        """Run from start to end; whatever happens, every process that was started is ended."""
        with contextlib.ExitStack() as reserved:
            await self._run(stop, reserved)

    async def _run(self, stop: asyncio.Event, reserved: contextlib.ExitStack) -> None:
        state = self.state
        identity = load_identity(state, new_kubernetes=self.options.new_kubernetes)
        check_images(state.images, identity)
        old = read_record(state)
        # Children of a supervisor that was killed may still be ending: two API servers on one database are refused.
        await end_leftovers(old)
        network, network_lock = claim(state.path, old.network, claims_folder())
        port = await _reserve_port("--port", self.options.port, old.port, self.say)
        reserved.enter_context(port)
        api_port = await _reserve_port("--api-port", self.options.api_port, old.api_port, self.say)
        reserved.enter_context(api_port)
        pid = os.getpid()
        self.record = Record(
            pid=pid,
            started=process_start(pid),
            port=machine.socket_port(port),
            api_port=machine.socket_port(api_port),
            network=network.number,
        )
        self.room.check()
        # Before anything is started: a supervisor that dies now leaves a record by which the next one finds what
        # lives.
        write_record(state, self.record)
        # The address and token of an earlier run: read now, they would be taken for this one's.
        state.platform.unlink(missing_ok=True)
        prepare_images(state, identity)
        write_progress(state)  # for jobs whose manifests were printed before any ran here
        enter_installed(state)
        if self.options.new_kubernetes:
            new_kubernetes(state, self.say)
        try:
            if not await self._start(network, stop):
                return
            api, token = read_platform(state)
            ready = Ready(api, token, state.kubeconfig, pid)
            write_ready(state.ready, ready)
            if self.options.ready_file:
                write_ready(self.options.ready_file, ready)
            await self._greet(ready, network)
            await self._watch(stop)
            self.say("stopping: the platform and the operator, then the Pods, then Kubernetes ...")
        except Refused:
            self.leave_pods = True  # a file that is put back within their lease costs no running work
            raise
        finally:
            await self._end(network)
            network_lock.release()

    async def _start(self, network: Network, stop: asyncio.Event) -> bool:
        """Start Kubernetes, then what works on it; False when asked to stop meanwhile."""
        for programs in self._programs(network):
            children = [
                KeptProcess(program, self.say, self._write, self.room.has_room) for program in programs
            ]
            self.children.extend(children)
            starting = asyncio.create_task(_start_all(children))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not starting.done():
                # Asked to stop while parts still start: `_end` ends them, whether they were ready or not.
                starting.cancel()
                return False
            starting.result()
        return True

    async def _watch(self, stop: asyncio.Event) -> None:
        """Watch until `stop`; raise the error of a task that keeps things running, which would go unnoticed else."""
        tasks = [asyncio.create_task(child.watch()) for child in self.children]
        tasks.append(asyncio.create_task(self.room.run(self._do_due)))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
            for task in filter(asyncio.Task.done, tasks):
                task.result()
        finally:
            stopping.cancel()
            for task in tasks:
                task.cancel()

    def _programs(self, network: Network) -> list[list[Program]]:
        """Return the programs in groups; those of one group start at the same time."""
        folder = ["--state-dir", str(self.state.path)]
        settings = ["--settings", str(self.options.settings)] if self.options.settings else []
        numbers = ["--port", str(self.record.port), "--network", str(network.number)]
        without = [word for name in self.options.without for word in ("--without", name)]
        platform = [*settings, "--port", str(self.record.api_port), *without]
        options = {"kubernetes": [*settings, *numbers], "operator": settings, "platform": platform}
        programs = {name: service(name, folder + options[name], self.state.log(name)) for name in options}
        chosen = [[name for name in group if name not in self.options.without] for group in STARTED]
        return [[programs[name] for name in group] for group in chosen]

    async def _end(self, network: Network) -> None:
        from steelyard.local.kubernetes import kubernetes_config
        from steelyard_local_kubernetes.kubelet.stopping import stop_all_pods

        self.state.ready.unlink(missing_ok=True)
        self.state.platform.unlink(missing_ok=True)
        if self.options.ready_file:
            self.options.ready_file.unlink(missing_ok=True)
        # The other way round: the platform and the operator may still write to Kubernetes while they end.
        for names in reversed(STARTED):
            group = [child for child in self.children if child.program.name in names]
            await asyncio.gather(*(child.end(END_SECONDS, leave_pods=self.leave_pods) for child in group))
            # Also of those that had to be killed: nobody serves figures there any more.
            for child in group:
                self.state.metrics(child.program.name).unlink(missing_ok=True)
        # Last: while Kubernetes lives its kubelet would start again what is ended here.
        if not self.leave_pods:
            await stop_all_pods(kubernetes_config(self.state).kubelet(network))
        self.record = replace(self.record, pid=0, started="", children={})
        self._keep_record()

    def _do_due(self) -> None:
        """Do the work that is due while the disk has room: the record, if it is behind, and the time that the machine
        slept.
        """
        self._write()
        try:
            if self.sleeps.keep():
                self.say("the machine slept, or its clock jumped ahead: that time counts for no deadline")
        except OSError as error:
            if not no_room(error):
                self.say(f"{self.state.sleeps}: cannot be written: {error.strerror}")

    def _write(self) -> None:
        """Keep who runs now; without room that waits for the next check of the disk."""
        living = {child.program.name: child.identity for child in self.children}
        restarts = {child.program.name: child.restarts for child in self.children}
        refusals = {child.program.name: child.refusal for child in self.children if child.refusal}
        children = {name: identity for name, identity in living.items() if identity}
        self.record = replace(self.record, children=children, restarts=restarts, refusals=refusals)
        self._keep_record()

    def _keep_record(self) -> None:
        """Keep the record. Nothing may end for a record that cannot be written: what runs ends with us in any
        case.

        The next `up` knows by pid and start time which of an old record's processes still are those.
        """
        if self.record == self._kept:
            return
        try:
            write_record(self.state, self.record)
        except OSError as error:
            if not no_room(error):
                self.say(f"{self.state.record}: cannot be written: {error.strerror}")
        else:
            self._kept = self.record

    async def _greet(self, ready: Ready, network: Network) -> None:
        from steelyard.local.kubernetes import kubernetes_config
        from steelyard_local_kubernetes.kubelet.abilities import abilities

        can = await abilities(kubernetes_config(self.state).kubelet(network))
        kubeconfig = self.state.kubeconfig
        token = token_for_terminal(self.state, ready)
        self.say(
            (f"The platform answers on {ready.api}\n  token:       {token}\n" if ready.api else "")
            + f"Kubernetes answers on https://127.0.0.1:{self.record.port}\n"
            f"  kubeconfig:  {kubeconfig}\n"
            f"  try:         steelyard get evaluations --state-dir {self.state.path}\n"
            f"               kubectl --kubeconfig {kubeconfig} get nodes,evaluations -A\n"
            f"  end it with: Ctrl-C, or steelyard down --state-dir {self.state.path}"
        )
        for mark in set_aside_in(self.state.at_work):
            self.say(f"  note:        {mark.message}")
        if not can.mounts:
            self.say(
                "  note:        without mount namespaces (root or user namespaces) programs that are not Steelyard's "
                "own\n               cannot resolve the names of Services; they stand in STEELYARD_HOSTS"
            )
        if not can.binds:
            self.say(
                "  note:        without seccomp notification (Linux 5.9, ptrace of one's own programs) training jobs "
                "of equal\n               ports collide; give each a port of its own"
            )
        if not can.pids:
            self.say(
                "  note:        without process namespaces (root or user namespaces, and a /proc of one's own) Pods "
                "have\n               the machine's process numbers: a Pod may kill anything of yours by its number"
            )


def _folders(options: Options) -> list[Path]:
    """Returns one folder on every disk that something is written to."""
    if options.settings is None:
        return [options.state.path]
    from steelyard.settings import load

    settings = load(options.settings, options.state.path)
    addresses = (settings.log, settings.view, settings.accounts, settings.storage, settings.backup)
    return machine.disk_folders(options.state.path, addresses)


async def _start_all(children: Sequence[KeptProcess]) -> None:
    await asyncio.gather(*(child.start(START_SECONDS) for child in children))


async def supervise(options: Options, say: Callable[[str], None]) -> None:
    """Run until SIGINT, SIGTERM or SIGHUP; a second one ends it without waiting.

    Raises UsageError when the machine or the folder cannot be used, or when another `up` runs on the folder.
    """
    machine.check_machine()
    machine.check_file_system(options.state.path.resolve())
    prepare(options.state, new_kubernetes=options.new_kubernetes)
    lock = await _take_lock(options.state)
    try:
        lock.write(str(os.getpid()))
        stopping = asyncio.Event()
        up = Up(options, say)

        def stop_or_kill() -> None:
            # The second signal: its sender does not want to wait for an orderly end.
            if stopping.is_set():
                for child in up.children:
                    child.kill()
            stopping.set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop_or_kill)
        await up.run(stopping)
        say("stopped; the next steelyard up continues from here")
    finally:
        lock.release()


async def _take_lock(state: StateDir) -> FileLock:
    lock, loop = FileLock(state.lock()), asyncio.get_running_loop()
    until = loop.time() + LOCK_SECONDS
    while True:
        try:
            # Held for as long as this process lives; the kernel releases it also after kill -9.
            lock.acquire()
        except LockHeld:
            if loop.time() < until:
                await asyncio.sleep(0.05)
                continue
            pid = state.lock().read_text().strip()
            where = f"--state-dir {state.path}"
            raise UsageError(
                f"{where}: steelyard up runs there already (pid {pid}); "
                f"use it, end it with: steelyard down {where}, or choose another folder"
            ) from None
        return lock


async def _reserve_port(
    option: str, requested: int, last: int, say: Callable[[str], None], patience: float = PATIENCE
) -> socket.socket:
    """Reserve the port for a part that is to listen on it. Raises UsageError where a requested one is taken."""
    if requested:
        if (reserved := machine.reserve_port(requested)) is None:
            raise UsageError(
                f"{option} {requested}: is taken by {machine.listener_name(requested)}; "
                "choose another, or leave it out"
            )
        return reserved
    # The same port as the last time, so that addresses that users and their programs know stay right. A process of ours
    # may have it for a moment: a supervisor that was killed just as it started one left no record of it.
    until = asyncio.get_running_loop().time() + patience
    while last:
        if (reserved := machine.reserve_port(last)) is not None:
            return reserved
        if asyncio.get_running_loop().time() >= until:
            break
        await asyncio.sleep(0.05)
    chosen = machine.reserve_lasting_port()
    if last:
        say(
            f"port {last} is taken by {machine.listener_name(last)}; this time it is {machine.socket_port(chosen)}"
        )
    return chosen
