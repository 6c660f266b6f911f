"""Reads the outcomes of commands from `workflows.outcomes`, while the process expects one.

The client of an edit waits for its outcome, so that is read at every change of the log. No client waits for the outcome
of a create: while only those are expected, many are read at once.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import orjson

from steelyard.broker.log import OUTCOMES, Log, LogError

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.25
"""Longest time between two reads while an outcome is expected."""
_BATCH_SECONDS = 0.05
"""Shortest time between two reads while no client waits."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a command: `applied`, or `rejected` with the reason."""

    command: str
    outcome: str
    reason: str | None = None
    message: str | None = None
    epoch: int | None = None
    """Epoch of the log, and offset, of the last command in the entity's state."""
    offset: int | None = None


class OutcomeReader:
    """Reads the outcomes that this process expects."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._expected: dict[str, asyncio.Future[Outcome]] = {}
        """Outcomes that are waited for, by command."""
        self._offsets: dict[int, int] = {}
        """Offsets to read from, by partition; empty while no outcome is expected."""
        self._any_expected = asyncio.Event()
        self._urgent: set[str] = set()
        """Commands whose clients wait."""
        self._any_urgent = asyncio.Event()
        self._lock = asyncio.Lock()

    async def expect(self, command: str, *, urgent: bool = False) -> "asyncio.Future[Outcome]":
        """Return a future of the command's outcome. Call it before the command is sent, and `forget` in the end."""
        # A read that is under way is not waited for: with servers as engines it takes as long as ten requests.
        if not self._offsets:
            async with self._lock:
                if not self._offsets:  # earlier outcomes are those of other processes' commands
                    self._offsets = dict(await self._log.ends(OUTCOMES))
        if urgent:
            self._urgent.add(command)
            self._any_urgent.set()
        future = self._expected.get(command)
        if future is None:
            future = self._expected[command] = asyncio.get_running_loop().create_future()
        self._any_expected.set()
        return future

    async def expect_earlier(self, commands: Iterable[str]) -> "list[asyncio.Future[Outcome]]":
        """Expect commands that an earlier process may have sent: the log of outcomes is read from its beginning."""
        async with self._lock:
            self._offsets = dict.fromkeys(range(self._log.partitions), 0)
        return [await self.expect(command) for command in commands]

    def forget(self, command: str) -> None:
        """Cancel the future of a command, if its outcome has not come."""
        future = self._remove(command)
        if future is not None and not future.done():
            future.cancel()

    async def run(self) -> None:
        """Read outcomes until cancelled."""
        while True:
            await self._any_expected.wait()
            version = self._log.version()
            try:
                # The version is taken before the read: what comes in between changes it, and the wait returns at once.
                if not await self._read():
                    await self._log.wait_for_change(version, _POLL_SECONDS)
                # Creates come in bursts, and no request waits for their outcomes: many are read at once.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_BATCH_SECONDS):
                        await self._any_urgent.wait()
            except LogError as error:
                _log.warning("cannot read outcomes: %s", error)
                await asyncio.sleep(1)

    def _remove(self, command: str) -> "asyncio.Future[Outcome] | None":
        """Return the future of a command that is expected no more."""
        self._urgent.discard(command)
        if not self._urgent:
            self._any_urgent.clear()
        future = self._expected.pop(command, None)
        if not self._expected:
            self._any_expected.clear()
        return future

    async def _read(self) -> bool:
        """Read the newest records of all partitions; return whether there were any."""
        async with self._lock:
            some = False
            for partition, records in (await self._log.read_each(OUTCOMES, dict(self._offsets))).items():
                for record in records:
                    try:
                        content = orjson.loads(record.value or b"{}")
                        future = self._remove(content.get("command", ""))
                        if future is not None and not future.done():
                            names = ("command", "outcome", "reason", "message", "epoch", "offset")
                            future.set_result(Outcome(**{name: content.get(name) for name in names}))
                    except (ValueError, TypeError, AttributeError) as error:
                        # One record that cannot be read must not keep the others from those who wait.
                        _log.error("an outcome of %s cannot be read", record.key, exc_info=error)
                self._offsets[partition] = records[-1].offset + 1
                some = True
            if not self._expected:
                self._offsets = {}
            return some
