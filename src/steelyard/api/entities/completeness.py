"""Refuses reads until the view shows everything that the log held when this process began.

A view that was lost is built again from the log. Until then it lacks entities that were acknowledged long ago: a client
that learns that they do not exist might create them again.
"""

import asyncio
from collections.abc import Mapping

from steelyard.api.http.errors import Unavailable
from steelyard.broker.log import STATE, Log
from steelyard.views.view import View

START_SECONDS = 10.0
"""Time for which the API's start waits for the view: one that is a few records behind needs a moment."""


class Completeness:
    """Compares the view with the end of the log at the process's start. Once complete, it stays so."""

    def __init__(self, log: Log, view: View) -> None:
        self._log, self._view = log, view
        self._ends: Mapping[int, int] = {}
        self._complete = False

    async def begin(self) -> None:
        """Note the end of the log, before this process writes anything."""
        self._ends = await self._log.ends(STATE)
        await self._is_complete()

    async def wait(self, seconds: float = START_SECONDS) -> None:
        """Return once the view is complete, or when the time is over: `check` then refuses reads."""
        try:
            async with asyncio.timeout(seconds):
                while not await self._is_complete():  # noqa: ASYNC110 - the sink may be another process
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return

    async def check(self) -> None:
        """Raise Unavailable until the view is complete."""
        if not await self._is_complete():
            raise Unavailable("the view is being rebuilt from the log, and is not complete yet")

    async def _is_complete(self) -> bool:
        if not self._complete:
            shown = await self._view.positions(self._log.epoch)
            behind = [partition for partition, end in self._ends.items() if shown.get(partition, 0) < end]
            self._complete = not any([await self._lacks(partition, shown) for partition in behind])
        return self._complete

    async def _lacks(self, partition: int, shown: Mapping[int, int]) -> bool:
        """Return whether a record of the topic lies before the end: records of other topics may have moved the end."""
        records = await self._log.read(STATE, partition, shown.get(partition, 0), 1)
        return bool(records) and records[0].offset < self._ends[partition]
