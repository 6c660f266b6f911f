"""Memory and processor time of the processes of one `steelyard up`, by name. Called by `__main__.py`."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event, Thread

from benchmarks.machine.__main__ import memory, processor
from steelyard.local.state import StateDir, read_record

IDLE_SECONDS = 10.0


@dataclass(frozen=True)
class Residence:
    """Proportional set size in MB, and the processor's share in percent of one core."""

    memory: float
    processor: float


@dataclass
class Busy:
    """The largest memory while somebody works, and the mean share."""

    most: dict[str, float] = field(default_factory=dict)
    share: dict[str, float] = field(default_factory=dict)

    def residences(self) -> dict[str, Residence]:
        return {name: Residence(most, self.share.get(name, 0.0)) for name, most in self.most.items()}


def processes(state: StateDir) -> Mapping[str, int]:
    record = read_record(state)
    return {"supervisor": record.pid} | {name: pid for name, (pid, _) in record.children.items()}


def idle(state: StateDir) -> dict[str, Residence]:
    parts = processes(state)
    before = {name: processor([pid]) for name, pid in parts.items()}
    time.sleep(IDLE_SECONDS)
    return {
        name: Residence(memory([pid]), (processor([pid]) - before[name]) / IDLE_SECONDS * 100)
        for name, pid in parts.items()
    }


@contextlib.contextmanager
def busy(state: StateDir) -> Iterator[Busy]:
    """Looks until the block ends; what it found is whole then."""
    busy, ended, parts = Busy(), Event(), processes(state)
    before, began = {name: processor([pid]) for name, pid in parts.items()}, time.monotonic()

    def look() -> None:
        while not ended.wait(0.5):
            for name, pid in parts.items():
                busy.most[name] = max(busy.most.get(name, 0.0), memory([pid]))

    watcher = Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield busy
    finally:
        ended.set()
        watcher.join()
        seconds = time.monotonic() - began
        for name, pid in parts.items():
            busy.share[name] = (processor([pid]) - before[name]) / seconds * 100
