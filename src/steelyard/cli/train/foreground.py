"""A job in the foreground: followed to its end, with Ctrl-C for a question."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Literal

from steelyard.cli.train import wording
from steelyard.cli.train.cluster import ClusterTarget
from steelyard.cli.train.follower import Follower
from steelyard.cli.train.screen import Screen
from steelyard.clusters.training import jobs
from steelyard.clusters.training.errors import BadJob
from steelyard.clusters.training.following import follow
from steelyard.clusters.training.logs import LogCluster
from steelyard.clusters.training.view import JobView
from steelyard.clusters.training.watching import wait
from steelyard_common.types import mapping
from steelyard_kube.objects import read_status

EXIT_INTERRUPTED = 130
DECIDE_SECONDS = 10.0
"""Seconds within which a second signal stops the job, without a terminal; after them it is left running."""
TOGETHER_SECONDS = 0.2
"""Seconds within which signals count as one: timeout(1) sends its signal to the command and to its process group."""
QUESTION = "Leave the job running (d), stop it (s, or Ctrl-C again), or go on watching (c)?"

Choice = Literal["detach", "stop", "continue"]


@dataclass(frozen=True)
class ForegroundEnd:
    """The end of the foreground. `detached`: the job goes on without it."""

    job: JobView
    exit_code: int
    detached: bool = False


class Session:
    """One job, one screen, and the signals of this process."""

    def __init__(self, cluster: LogCluster, job: JobView, place: ClusterTarget, screen: Screen) -> None:
        self._cluster, self._place, self._screen = cluster, place, screen
        self._follower = Follower(screen, job)
        self._signals: asyncio.Queue[int] = asyncio.Queue()
        self._last = float("-inf")

    @property
    def job(self) -> JobView:
        return self._follower.job

    async def run(self) -> ForegroundEnd:
        """Follow the job until it has ended, or the user has left it. Raises JobDeleted."""
        with self._listening():
            async with self._show() as shown:
                while True:
                    if not await self._signalled(shown):
                        return ForegroundEnd(shown.result(), self.job.exit_code)
                    match await self._ask(shown):
                        case "detach":
                            return self._detach(0 if _at_terminal() else EXIT_INTERRUPTED)
                        case "stop":
                            return await self._stop(shown)
                        case "continue":
                            continue

    @asynccontextmanager
    async def _show(self) -> AsyncIterator["asyncio.Task[JobView]"]:
        task = asyncio.create_task(self._follower.run(follow(self._cluster, self.job)))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _signalled(self, shown: "asyncio.Task[JobView]", seconds: float | None = None) -> bool:
        """Return whether a signal came before the job's end and before time was up."""
        signalled = asyncio.ensure_future(self._signals.get())
        await asyncio.wait({shown, signalled}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        signalled.cancel()
        # A signal that comes with the job's end asks about nothing any more.
        return signalled.done() and not signalled.cancelled() and not shown.done()

    async def _ask(self, shown: "asyncio.Task[JobView]") -> Choice:
        if _at_terminal():
            return await self._ask_person(shown)
        self._screen.say(
            f"interrupted; another signal within {DECIDE_SECONDS:.0f} s stops the job, else it is left running"
        )
        if await self._signalled(shown, DECIDE_SECONDS):
            return "stop"
        return "continue" if shown.done() else "detach"

    async def _ask_person(self, shown: "asyncio.Task[JobView]") -> Choice:
        """One key; a second Ctrl-C stops. The job's end answers, too."""
        with _keys() as keys, self._hold(QUESTION):
            while True:
                key = asyncio.ensure_future(keys.get())
                signalled = asyncio.ensure_future(self._signals.get())
                await asyncio.wait({key, signalled, shown}, return_when=asyncio.FIRST_COMPLETED)
                pressed = key.result().lower() if key.done() else ""
                stopped = signalled.done()
                key.cancel()
                signalled.cancel()
                if stopped or pressed == "s":
                    return "stop"
                if pressed == "d":
                    return "detach"
                if pressed == "c" or shown.done():
                    return "continue"

    @contextmanager
    def _hold(self, question: str) -> Iterator[None]:
        """Keep the question in sight while the context lasts."""
        self._screen.say(question)
        self._screen.hold(True)
        try:
            yield
        finally:
            self._screen.hold(False)

    def _detach(self, exit_code: int) -> ForegroundEnd:
        name = self.job.name
        self._screen.ends(
            {"exit": exit_code, "detached": True, "job": name},
            f"{wording.full_name(self.job)} goes on without this command\n"
            f"  follow it:  {self._place.command(f'logs -f {name}')}\n"
            f"  its state:  {self._place.command(f'describe {name}')}\n"
            f"  stop it:    {self._place.command(f'stop {name}')}",
        )
        return ForegroundEnd(self.job, exit_code, detached=True)

    async def _stop(self, shown: "asyncio.Task[JobView]") -> ForegroundEnd:
        """Stop it, and see it end; a signal leaves at once, since the word is given."""
        try:
            job = await jobs.stop(self._cluster, self.job)
        except BadJob:  # it has ended meanwhile
            return ForegroundEnd(await shown, self.job.exit_code)
        self._follower.stopping = True
        self._screen.say(f"stopping {wording.full_name(job)} ...")
        gone = asyncio.create_task(wait(self._cluster, job, until=lambda now: now.finished or _at_rest(now)))
        signalled = asyncio.ensure_future(self._signals.get())
        await asyncio.wait({gone, signalled}, return_when=asyncio.FIRST_COMPLETED)
        ended = gone.done()
        for task in (gone, signalled):
            task.cancel()
        await asyncio.gather(gone, signalled, return_exceptions=True)
        verb = "is stopped" if ended else "will stop"
        self._screen.ends(
            {"exit": EXIT_INTERRUPTED, "stopped": True, "job": job.name},
            f"{wording.full_name(job)} {verb}\n"
            f"  go on with it:  {self._place.command(f'resume {job.name}')}\n"
            f"  delete it:      {self._place.command(f'delete {job.name}')}",
        )
        return ForegroundEnd(self.job, EXIT_INTERRUPTED)

    def _take_signal(self, number: int, clock: Callable[[], float]) -> None:
        before, self._last = self._last, clock()
        # A person's second Ctrl-C may come at once and means it.
        if _at_terminal() or self._last - before >= TOGETHER_SECONDS:
            self._signals.put_nowait(number)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._take_signal, number, loop.time)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


def _at_terminal() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _at_rest(job: JobView) -> bool:
    """Suspended, and no replica is left."""
    status = read_status(job.resource)
    active = sum(
        int(replica_status.get("active") or 0)
        for replica_status in mapping(status, "replicaStatuses").values()
    )
    return job.state == "Suspended" and not active


@contextmanager
def _keys() -> Iterator["asyncio.Queue[str]"]:
    """Keys as they are pressed, without Enter."""
    import termios
    import tty

    descriptor, pressed = sys.stdin.fileno(), asyncio.Queue[str]()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        pressed.put_nowait(os.read(descriptor, 1).decode(errors="replace"))

    tty.setcbreak(descriptor, termios.TCSANOW)  # what was typed ahead counts
    loop.add_reader(descriptor, read)
    try:
        yield pressed
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
