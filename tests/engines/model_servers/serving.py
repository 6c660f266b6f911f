"""A real server that is started, and started again, by what `eval run --serve` uses; it runs in a thread of its own."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from steelyard.local.serving.plan import ServerPlan, plan_server
from steelyard.local.serving.server import Server
from steelyard_common import processes

PATIENCE = 600.0


class Running:
    """A server while it is kept running."""

    def __init__(self, plan: ServerPlan) -> None:
        self.plan, self.said = plan, list[str]()
        self._server = Server(plan, self._say)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "Running":
        began = time.monotonic()
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(PATIENCE)
        self.seconds = time.monotonic() - began
        self._kept = asyncio.run_coroutine_threadsafe(self._server.keep(), self._loop)
        return self

    def __exit__(self, *_: object) -> None:
        watcher = self._server.process
        below = processes.descendants(watcher)
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(PATIENCE)
        self._kept.result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        assert below, "a server has processes"
        left = [pid for pid in (watcher, *below) if processes.start_time(pid) is not None]
        assert not left, f"processes stay: {left}"

    @property
    def restarts(self) -> int:
        return self._server.restarts

    @property
    def answered(self) -> int:
        """Answers that the present process of the server has given, as its log of requests says."""
        lines = self.plan.log.read_text(errors="replace").splitlines()
        return sum("POST /v1/" in line and " 200 OK" in line for line in lines)

    def end(self, number: int) -> set[int]:
        """Send a signal to the server's front process; return all its processes."""
        guard = self._server.process
        below, parents = processes.descendants(guard), processes.parents()
        front = next(pid for pid in below if parents.get(parents.get(pid, 0)) == guard)
        os.kill(front, number)
        return set(below)

    def _say(self, text: str) -> None:
        self.said.append(text)
        print(f"  {text}", flush=True)


@contextlib.contextmanager
def serving(model: Path, *arguments: str, name: str = "tiny", runner: str | None = None) -> Iterator[Running]:
    """Serve a model while the block runs."""
    plan = plan_server(model, runner=runner, name=name, gpus=0, arguments=arguments)
    with Running(plan) as running:
        yield running


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.1)
