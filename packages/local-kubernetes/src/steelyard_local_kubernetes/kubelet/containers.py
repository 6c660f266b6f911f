"""The runs of one Pod's containers and the shims behind them: started, adopted, signalled, observed."""

import asyncio
import signal
from collections.abc import Callable, Iterable

from steelyard_local_kubernetes.kubelet import records, shim, shim_processes
from steelyard_local_kubernetes.kubelet.preparation import marker
from steelyard_local_kubernetes.kubelet.records import PodFolder, Run

STRAYS_SECONDS = 1.0  # how long killed processes may take to vanish


class Containers:
    """`on_change` is called whenever a shim has something new on disk."""

    def __init__(
        self, shims: shim_processes.ForkServer, folder: PodFolder, on_change: Callable[[], None]
    ) -> None:
        self.shims, self.folder, self.on_change = shims, folder, on_change
        self.runs: dict[str, Run | None] = {}  # the newest of each container
        self._shims: dict[tuple[str, int], shim_processes.ShimProcess] = {}
        self._stopping: set[tuple[str, int]] = set()
        self._asked: set[tuple[str, int]] = set()

    def alive(self) -> bool:
        return any(run is not None and run.state != "exited" for run in self.runs.values())

    def running(self) -> dict[str, Run]:
        return {name: run for name, run in self.runs.items() if run is not None and run.state == "running"}

    def previous(self) -> dict[str, Run | None]:
        """The run before the newest of each container."""
        return {
            name: self.folder.run(name, run.attempt - 1) if run is not None and run.attempt else None
            for name, run in self.runs.items()
        }

    def shim_pids(self) -> dict[str, int]:
        """Return the shims by container; also those that are only about to start."""
        return {name: child.pid for (name, _), child in self._shims.items() if not child.ended}

    async def observe(self, names: Iterable[str]) -> None:
        """Read how far each container's newest run has come; what a killed shim left behind is ended."""
        for name in names:
            # An end is final: its files are read again only once there is a newer run.
            known = self.runs.get(name)
            if (
                known is not None
                and known.state == "exited"
                and known.attempt + 1 == self.folder.attempts(name)
            ):
                continue
            run = self.folder.run(name)
            # Its shim was killed, and cannot end the tree any more: it is ended before another run may start.
            if run is not None and run.reason == records.LOST:
                await shim_processes.end_strays(marker(self.folder.base(name, run.attempt)), STRAYS_SECONDS)
            self.runs[name] = run
        self._adopt()

    def _adopt(self) -> None:
        """Hold the shims of running containers, let those of ended ones go."""
        for name, run in self.running().items():
            if (name, run.attempt) not in self._shims:
                child = shim_processes.adopt(run.shim, run.shim_start, self.on_change)
                # It has ended since its record was read: the next reconciliation finds the record of the end.
                if child is None:
                    self.on_change()
                else:
                    self._shims[name, run.attempt] = child
        # A shim that ended without a record of its run is kept: its exit status says whether to try again.
        for key in [key for key, child in self._shims.items() if child.ended and not self._open(key)]:
            del self._shims[key]

    def _open(self, key: tuple[str, int]) -> bool:
        run = self.runs.get(key[0])
        return run is not None and run.attempt == key[1] and run.state != "exited"

    def watch_run(self, name: str, attempt: int, started: shim_processes.StartedShim) -> None:
        """Watch the shim of a run that has just been started."""
        self._shims[name, attempt] = started.watch(self.on_change)
        self.runs[name] = Run(attempt, "intended")

    def begin_again(self) -> float | None:
        """Start runs that were meant to begin but have no record yet, because a kubelet or a shim was killed.

        Return the seconds until the next reconciliation: another shim may just be starting the run.
        """
        pause = None
        for name, run in self.runs.items():
            if run is None or run.state != "intended":
                continue
            child = self._shims.get((name, run.attempt))
            if child is not None and not child.ended:
                continue
            base = self.folder.base(name, run.attempt)
            errors = records.read_tail(base.with_suffix(".shim"))
            # It would fail the same way again: the run ends, with what the shim said.
            if child is not None and _failed(child, errors):
                records.cancel(base, "StartError", errors)
                self.on_change()
            elif not records.is_locked(base):
                self.watch_run(name, run.attempt, self.shims.launch(base.with_suffix(".json")))
            else:
                pause = 0.1
        return pause

    def cancel_unstarted(self) -> None:
        """Cancel a run that has not begun; a shim that is quicker has recorded its run, and is stopped like others."""
        for name, run in self.runs.items():
            if run is not None and run.state == "intended":
                base = self.folder.base(name, run.attempt)
                if records.cancel(base, "Cancelled", "the Pod ended before the container started"):
                    self.on_change()

    def send(self, number: signal.Signals) -> None:
        """A signal to every shim: SIGTERM it passes on, at SIGUSR2 it kills the container's tree."""
        for child in self._shims.values():
            child.send(number)

    def terminate(self, name: str) -> None:
        """Pass SIGTERM to the shim of a run that has not begun, once."""
        run = self.runs.get(name)
        child = self._shims.get((name, run.attempt)) if run is not None else None
        if run is not None and child is not None and (name, run.attempt) not in self._asked:
            self._asked.add((name, run.attempt))
            child.send(signal.SIGTERM)

    def was_asked(self, name: str) -> bool:
        """Return whether the newest run was asked to end before it had begun."""
        run = self.runs.get(name)
        return run is not None and (name, run.attempt) in self._asked

    def kill(self, name: str, reason: str) -> bool:
        """End a running container's tree at once, having said why; False where it has ended, or is about to."""
        run = self.runs.get(name)
        if run is None or run.state != "running" or (name, run.attempt) in self._stopping:
            return False
        self._stopping.add((name, run.attempt))
        self.folder.explain(name, run.attempt, reason, "")
        if (name, run.attempt) in self._shims:
            self._shims[name, run.attempt].send(signal.SIGUSR2)
        return True

    def stop(self, name: str, grace: float) -> bool:
        """End one container in order, unless that is under way; its Pod's policy says whether it starts again."""
        run = self.runs.get(name)
        child = self._shims.get((name, run.attempt)) if run is not None else None
        if run is None or child is None or (name, run.attempt) in self._stopping:
            return False
        self._stopping.add((name, run.attempt))
        child.send(signal.SIGTERM)
        asyncio.get_running_loop().call_later(grace, child.send, signal.SIGUSR2)
        return True

    def close(self) -> None:
        """Let go of everything; it runs on."""
        for child in self._shims.values():
            child.close()


def _failed(child: shim_processes.ShimProcess, errors: str) -> bool:
    """Return whether an ended shim could not do its work; one that came late or was killed left it to the next."""
    if child.exit_code is None:
        return bool(errors)
    return child.exit_code not in (0, shim.BUSY, shim.NO_ROOM, -signal.SIGTERM, -signal.SIGKILL)
