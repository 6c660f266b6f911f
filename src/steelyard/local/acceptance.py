"""Options of an administrator whose log is refused: inspect it, accept it, or rebuild it from its backup.

`steelyard log` calls these, on the engines of one state folder while no service runs on it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime

from steelyard.broker.log import STATE
from steelyard.engines.addresses import without_password
from steelyard.local.engines import Engines, open_engines, outlets
from steelyard.local.process import SERVICES
from steelyard.local.state import StateDir
from steelyard.services.identity import Inspection, accept, inspect, next_epoch
from steelyard.services.sinks.restore import RestoreResult, restore
from steelyard.services.sinks.view import ENTITIES
from steelyard.settings import Settings
from steelyard_common.errors import UsageError
from steelyard_common.lock import FileLock, LockHeld


@dataclass(frozen=True)
class Report:
    """A log and its outlets. `missing`: how many entities of the backup the log does not know."""

    address: str
    id: str
    epoch: int
    inspection: Inspection
    missing: int


@dataclass(frozen=True)
class AcceptedLog:
    """The epoch from which on the log counts, and how many acknowledged creates are sent to it again."""

    id: str
    epoch: int
    resent: int
    restored: RestoreResult | None = None


async def report(settings: Settings, advice: str = "") -> Report:
    """Compare the log with its outlets. `advice` says how to go on where a file is damaged."""
    async with open_engines(settings, advice) as opened:
        log = opened.log
        inspection = await inspect(log, outlets(opened, settings))
        missing = 0
        async for info in opened.backup.list(ENTITIES):
            id = info.key.rpartition("/")[2].removesuffix(".json")
            missing += await opened.log.latest(STATE, id) is None
        return Report(without_password(settings.log), log.id, log.epoch, inspection, missing)


async def accept_log(settings: Settings) -> AcceptedLog:
    """Let everything follow the log that is there, from a new epoch on."""
    async with open_engines(settings) as opened:
        return await _accept(opened, settings, None)


async def restore_log(settings: Settings, now: datetime) -> AcceptedLog:
    """Write to the log what the backup has and the log has not, then accept it."""
    async with open_engines(settings) as opened:
        known = outlets(opened, settings)
        inspection = await inspect(opened.log, known)
        epoch = next_epoch(opened.log, inspection)
        restored = await restore(opened.log, opened.backup, inspection.origins[known.backup[0]], epoch, now)
        return await _accept(opened, settings, restored)


async def _accept(opened: Engines, settings: Settings, restored: RestoreResult | None) -> AcceptedLog:
    resent = await accept(opened.log, outlets(opened, settings), opened.accounts_database.outbox)
    return AcceptedLog(opened.log.id, opened.log.epoch, resent, restored)


@contextmanager
def keep_stopped(state: StateDir) -> Iterator[None]:
    """Keep every service of the folder from starting meanwhile. Raises UsageError where one runs."""
    with ExitStack() as locks:
        for name in SERVICES:
            lock = FileLock(state.lock(name))
            try:
                lock.acquire()
            except LockHeld:
                raise UsageError(
                    f"--state-dir {state.path}: its {name} runs; end it first: "
                    f"steelyard down --state-dir {state.path}"
                ) from None
            locks.callback(lock.release)
        yield
