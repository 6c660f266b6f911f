"""What became of commands: follows `workflows.outcomes` while somebody waits for one, and rests otherwise."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from steelyard.broker.log import OUTCOMES, Log, LogError, Record

_log = logging.getLogger(__name__)
_PAUSE = 0.25
"""Longest pause between two looks while somebody waits."""


@dataclass(frozen=True)
class Outcome:
    """`offset`: of the last command that the entity had seen then, as its state says."""

    command: str
    outcome: str
    reason: str | None = None
    message: str | None = None
    offset: int | None = None


class Outcomes:
    """One follower for all who wait in this process."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._positions: dict[int, int] = {}
        self._wanted = asyncio.Event()
        self._lock = asyncio.Lock()

    async def expect(self, command: str) -> "asyncio.Future[Outcome]":
        """Call it before the command is sent, and `forget` when the outcome is no longer of interest."""
        await self._begin()
        future = self._waiting.get(command)
        if future is None:
            future = self._waiting[command] = asyncio.get_running_loop().create_future()
        self._wanted.set()
        return future

    async def expect_earlier(self, commands: Iterable[str]) -> "list[asyncio.Future[Outcome]]":
        """As `expect`, for commands that another process may have sent: all outcomes that are kept are read."""
        async with self._lock:
            self._positions = dict.fromkeys(range(self._log.partitions), 0)
        return [await self.expect(command) for command in commands]

    def forget(self, command: str) -> None:
        future = self._waiting.pop(command, None)
        if future is not None and not future.done():
            future.cancel()
        if not self._waiting:
            self._wanted.clear()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            version = self._log.version()
            try:
                if not await self._read():
                    await self._log.changed(version, _PAUSE)
            except LogError as error:
                _log.warning("cannot read outcomes: %s", error)
                await asyncio.sleep(1)

    async def _begin(self) -> None:
        """Whoever comes first after a rest lets the follower begin at the end: what came before is nobody's."""
        async with self._lock:
            if not self._positions:
                self._positions = dict(await self._log.ends(OUTCOMES))

    async def _read(self) -> bool:
        async with self._lock:
            moved = False
            for partition, start in list(self._positions.items()):
                records = await self._log.read(OUTCOMES, partition, start)
                for record in records:
                    self._tell(record)
                if records:
                    self._positions[partition] = records[-1].offset + 1
                    moved = True
            if not self._waiting:
                self._positions = {}
            return moved

    def _tell(self, record: Record) -> None:
        content = orjson.loads(record.value or b"{}")
        future = self._waiting.pop(content.get("command", ""), None)
        if not self._waiting:
            self._wanted.clear()
        if future is not None and not future.done():
            names = ("command", "outcome", "reason", "message", "offset")
            future.set_result(Outcome(**{name: content.get(name) for name in names}))
