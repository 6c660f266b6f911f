"""Reads wait until the view shows everything that the log held when this process began.

A view that was lost is built anew from the log, and until then it lacks entities that were acknowledged long ago: to
say that they do not exist would be wrong, and whoever believes it may make them again.
"""

import asyncio
from collections.abc import Mapping

from steelyard.api.http.errors import Unavailable
from steelyard.broker.log import STATE, Log
from steelyard.views.view import View

PATIENCE = 10.0
"""Seconds for which the API's start waits: a view that is a few records behind needs a moment."""


class Completeness:
    """Knows for one process whether the view is complete; once it is, it stays so."""

    def __init__(self, log: Log, view: View) -> None:
        self._log, self._view = log, view
        self._ends: Mapping[int, int] = {}
        self._complete = False

    async def begin(self) -> None:
        """Note how long the log is, before this process writes anything."""
        self._ends = await self._log.ends(STATE)
        await self._look()

    async def wait(self, patience: float = PATIENCE) -> None:
        """Return once the view is complete, or when `patience` is over: reads are refused from then on (`check`)."""
        try:
            async with asyncio.timeout(patience):
                while not await self._look():  # noqa: ASYNC110 - the sink may be another process
                    await asyncio.sleep(0.05)
        except TimeoutError:
            return

    async def check(self) -> None:
        """Raises Unavailable until the view is complete."""
        if not await self._look():
            raise Unavailable("the view of the log is being built anew, and does not show everything yet")

    async def _look(self) -> bool:
        if not self._complete:
            shown = await self._view.positions(self._log.epoch)
            behind = [partition for partition, end in self._ends.items() if shown.get(partition, 0) < end]
            self._complete = not any([await self._lacks(partition, shown) for partition in behind])
        return self._complete

    async def _lacks(self, partition: int, shown: Mapping[int, int]) -> bool:
        """True where a record is still to be read before the end; records of other topics may have moved the end."""
        records = await self._log.read(STATE, partition, shown.get(partition, 0), 1)
        return bool(records) and records[0].offset < self._ends[partition]
