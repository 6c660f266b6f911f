"""Ends what an `up` that was killed has left: its children, by the pids and start times that its record holds.

Children end by themselves when their supervisor dies; this waits for that, and makes sure. The next `up` and `down`
call it.
"""

import asyncio
import os
import signal
from collections.abc import Iterable

from steelyard.local.state import Record, process_start

PATIENCE = 5.0


async def end_leftovers(record: Record, patience: float = PATIENCE) -> None:
    """Return once no process of the record lives."""
    processes = list(record.children.values())
    # First nothing: children see the end of their line and finish what they are writing.
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        for pid, _ in living(processes):
            _signal(pid, number)
        until = asyncio.get_running_loop().time() + patience
        while living(processes) and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110  (not our children)
            await asyncio.sleep(0.05)
        if not living(processes):
            return


def living(processes: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the processes that still run; a pid that another process has now does not count."""
    return [(pid, started) for pid, started in processes if started and process_start(pid) == started]


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
