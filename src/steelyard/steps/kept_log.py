"""A step's log in storage, next to the output of its entity.

Lines go to `.dyff/logs/<pod uid>/<n>` in pieces of at most 5 s, so that a kill loses the last piece and no more; at the
step's end `.dyff/logs.txt` holds the pieces of all Pods of the entity. `common` keeps it; the API reads it. Whatever
storage does, the step goes on: its lines are on standard output in any case.
"""

import asyncio
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from dataclasses import dataclass, field

from steelyard_evaluation.storage.store import BadLocation, Store, check_key, open_store
from steelyard_schema.names import LOG_PIECES, WHOLE_LOG
from steelyard_schema.steps import StepConfig

PIECE_SECONDS = 5.0
PIECE_BYTES = 1 << 20
END_SECONDS = 10.0
"""Seconds that a step waits at its end for storage to take the log."""
MOST_BYTES = 16 << 20
"""Bytes kept in memory while storage takes nothing; older lines are dropped."""


@dataclass
class KeptLog:
    """The lines of one Pod that storage does not have yet, and how they get there."""

    store: Store
    pod: str
    trouble: str = ""
    """Why storage did not take the last piece; empty when it did."""
    _lines: deque[str] = field(default_factory=deque)
    _bytes: int = 0
    _lost: int = 0
    _pieces: int = 0
    _ending: bool = False
    _due: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, line: str) -> None:
        """Any line of the step's log, with its end; no input or output."""
        self._lines.append(line)
        self._bytes += len(line)
        # While storage takes nothing, the newest lines are worth more than the oldest: they show how the step ended.
        while self._bytes > MOST_BYTES:
            self._bytes -= len(self._lines.popleft())
            self._lost += 1
        # A storage that refuses is tried again at its pace, not at every line.
        if self._bytes > PIECE_BYTES and not self.trouble:
            self._due.set()

    async def keep(self) -> None:
        """Write a piece now and then, until `end`; the rest is for `close`."""
        while True:
            await _at_most(PIECE_SECONDS, self._due.wait())
            if self._ending:
                return
            self._due.clear()
            await self._write()

    async def end(self, keeping: "asyncio.Task[None]") -> None:
        """Stop `keep`, without cutting a write off that would come late and replace a newer piece."""
        self._ending = True
        self._due.set()
        await _at_most(END_SECONDS, asyncio.shield(keeping))

    async def close(self) -> None:
        """The last piece, then the whole log."""
        await _at_most(END_SECONDS, self._close())

    async def _close(self) -> None:
        await self._write()
        try:
            pieces = [piece async for piece in whole_log(self.store, self.pod)]
            await self.store.put(WHOLE_LOG, b"".join(pieces))
        except Exception as error:  # noqa: BLE001 - no trouble with the log may fail the step
            self.trouble = str(error)

    async def _write(self) -> None:
        """Write the waiting lines as a piece; one that storage refuses waits, and is tried again under the
        same name.
        """
        if not self._lines:
            return
        lines, lost = self._lines, self._lost
        # Taken before the await: lines that are logged during the write belong to the next piece.
        self._lines, self._lost, self._bytes = deque(), 0, 0
        said = [_note(self.pod, f"{lost} lines are missing here: storage did not take them")] if lost else []
        try:
            piece = f"{LOG_PIECES}{self.pod}/{self._pieces:06d}"
            await self.store.put(piece, "".join([*said, *lines]).encode())
        except Exception as error:  # noqa: BLE001 - as above
            self.trouble = str(error)
            # Lines that came meanwhile stay behind these. The piece keeps its number, so a write that did arrive is
            # replaced.
            self._lines, self._lost = lines + self._lines, lost + self._lost
            self._bytes = sum(map(len, self._lines))
        else:
            self.trouble = ""
            self._pieces += 1


def open_log(config: StepConfig) -> KeptLog | None:
    """The log of this Pod; None where there is no Pod, or no output to store it with."""
    pod = os.environ.get("POD_UID")
    storage = config.spec.get("storage")
    output = storage.get("output") if isinstance(storage, dict) else None
    if not pod or not isinstance(output, str):
        return None
    try:
        return KeptLog(open_store(output), check_key(pod))
    except BadLocation:
        return None  # the step itself says what is wrong with its output


async def whole_log(store: Store, own: str = "") -> AsyncIterator[bytes]:
    """Every Pod's pieces, Pods by the time of their first line; `own` is the Pod that is writing now."""
    pods: dict[str, list[bytes]] = {}
    async for info in store.list(LOG_PIECES):
        pods.setdefault(info.key.removeprefix(LOG_PIECES).partition("/")[0], []).append(
            await store.get(info.key)
        )
    # By the first line's own time: names of Pods are random, and storage has no order of arrival.
    begins = {pod: str(_line(pieces[0].partition(b"\n")[0]).get("time", "")) for pod, pieces in pods.items()}
    for pod in sorted(pods, key=lambda pod: (begins[pod], pod)):
        for piece in pods[pod]:
            yield piece
        # A step's last line says how it exited; without it the Pod was killed before its last lines were stored.
        if pod != own and "exit" not in _line(pods[pod][-1].rstrip(b"\n").rpartition(b"\n")[2]):
            said = f"the log of Pod {pod} ends without its last words: up to {PIECE_SECONDS:.0f} s of it are missing"
            yield _note(pod, said).encode()


def _note(pod: str, message: str) -> str:
    return json.dumps({"level": "warning", "step": "log", "message": message, "pod": pod}) + "\n"


def _line(line: bytes) -> dict[str, object]:
    try:
        content = json.loads(line)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


async def _at_most(seconds: float, work: Awaitable[object]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work
