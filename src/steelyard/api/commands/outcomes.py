"""What became of commands: follows `workflows.outcomes` while somebody waits for one, and rests otherwise.

An edit's client waits for its outcome, which is looked for at each change of the log. No client waits for a create's:
as long as only those are expected, many are read at once.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import orjson

from steelyard.broker.log import OUTCOMES, Log, LogError, Record

_log = logging.getLogger(__name__)
_PAUSE = 0.25
"""Longest pause between two looks while somebody waits."""
_CALM = 0.05
"""Shortest one while nobody is in a hurry."""


@dataclass(frozen=True)
class Outcome:
    """`epoch` and `offset`: of the last command that the entity had seen then, as its state says."""

    command: str
    outcome: str
    reason: str | None = None
    message: str | None = None
    epoch: int | None = None
    offset: int | None = None


class Outcomes:
    """One follower for all who wait in this process."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._positions: dict[int, int] = {}
        self._wanted = asyncio.Event()
        self._hurried: set[str] = set()
        self._hurry = asyncio.Event()
        self._lock = asyncio.Lock()

    async def expect(self, command: str, *, hurry: bool = False) -> "asyncio.Future[Outcome]":
        """Call it before the command is sent, and `forget` when the outcome is no longer of interest."""
        await self._begin()
        if hurry:
            self._hurried.add(command)
            self._hurry.set()
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
        self._rest(command)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            version = self._log.version()
            try:
                if not await self._read():
                    await self._log.changed(version, _PAUSE)
                await self._pause()
            except LogError as error:
                _log.warning("cannot read outcomes: %s", error)
                await asyncio.sleep(1)

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CALM):
                await self._hurry.wait()

    def _rest(self, command: str) -> None:
        """Nobody waits for this one any more."""
        self._hurried.discard(command)
        if not self._hurried:
            self._hurry.clear()
        if not self._waiting:
            self._wanted.clear()

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
                    self._try_to_tell(record)
                if records:
                    self._positions[partition] = records[-1].offset + 1
                    moved = True
            if not self._waiting:
                self._positions = {}
            return moved

    def _try_to_tell(self, record: Record) -> None:
        try:
            self._tell(record)
        except (
            ValueError,
            TypeError,
            AttributeError,
        ) as error:  # nobody can learn from it; others wait for theirs
            _log.error("an outcome of %s cannot be read", record.key, exc_info=error)

    def _tell(self, record: Record) -> None:
        content = orjson.loads(record.value or b"{}")
        command = content.get("command", "")
        future = self._waiting.pop(command, None)
        self._rest(command)
        if future is not None and not future.done():
            names = ("command", "outcome", "reason", "message", "epoch", "offset")
            future.set_result(Outcome(**{name: content.get(name) for name in names}))
