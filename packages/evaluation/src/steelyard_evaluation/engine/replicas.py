"""Keeps the pool as the discovery says: new replicas join once they prove whose they are, vanished ones are dropped."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from steelyard_common.discovery import REFRESH_SECONDS, Discovery, ForeignSession, Identity
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.pool import Pool

_IMPATIENT_SECONDS = 0.5


class EventLog(Protocol):
    """Log for messages that a reader should know."""

    def info(self, message: str, **fields: str | int | float | bool | None) -> None: ...
    def warning(self, message: str, **fields: str | int | float | bool | None) -> None: ...


@dataclass(frozen=True)
class Absence:
    """Limits of the time without any replica, for a session that belongs to another entity."""

    start_seconds: float = 1800.0
    gone_seconds: float = 60.0


class Replicas:
    """The upkeep of one pool."""

    def __init__(
        self,
        discovery: Discovery,
        identity: Identity | None,
        pool: Pool,
        log: EventLog,
        absence: Absence | None,
    ) -> None:
        self._discovery = discovery
        self._identity = identity
        self._pool = pool
        self._log = log
        self._absence = absence
        self._foreign: set[str] = set()
        self._ever = False

    async def keep(self, grown: Callable[[], None]) -> None:
        """Refresh until cancelled, and say when the pool has `grown`. SessionEnded when there is none for too long."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            if await self.refresh():
                grown()
            # A replica that was ever there makes the session one that has started: its absence then has the
            # shorter limit.
            if self._pool.addresses:
                last, self._ever = loop.time(), True
            self._miss(loop.time() - last)
            await asyncio.sleep(REFRESH_SECONDS if self._pool.addresses else _IMPATIENT_SECONDS)

    async def refresh(self) -> bool:
        """Bring the pool up to date; whether it has grown."""
        addresses = await self._discovery.addresses()
        for address in self._pool.addresses - addresses:
            self._pool.drop(address)
            self._log.info("replica vanished", address=address)
        # An address that left and comes back may be another Pod's: it is said again if it is foreign again.
        self._foreign &= addresses
        joined = await asyncio.gather(
            *(self._join(address) for address in sorted(addresses - self._pool.addresses))
        )
        return any(joined)

    async def _join(self, address: str) -> bool:
        if self._identity is not None:
            try:
                await self._identity.check(address)
            except ForeignSession as error:
                if address not in self._foreign:
                    self._log.warning("foreign replica", address=address, reason=str(error))
                self._foreign.add(address)
                return False
            except OSError:
                return False  # not up yet: the next refresh asks again
        self._pool.add(address)
        self._log.info("replica ready", address=address)
        return True

    def _miss(self, seconds: float) -> None:
        if self._absence is None:
            return
        allowed = self._absence.gone_seconds if self._ever else self._absence.start_seconds
        if seconds > allowed:
            what = "has had no replica" if self._ever else "never had a replica"
            raise EvaluationFailed(
                "SessionEnded", f"the referenced session {what} for {seconds:.0f} s", permanent=True
            )
