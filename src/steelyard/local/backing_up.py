"""A complete backup at one moment, beside a platform that runs: `steelyard backup write` calls this.

The backup sink writes entities by itself; what it has not written yet is added here, with what it never writes: a copy
of the accounts. The mirror, which the sink brings up to date once a day, follows at once.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from steelyard.engines.addresses import without_password
from steelyard.local.account_copies import remove_old_copies, write_copy
from steelyard.local.config import not_made_yet
from steelyard.local.engines import open_engines, outlets
from steelyard.local.secret_keys import secret_keys
from steelyard.local.state import StateDir
from steelyard.services.backup.mirror import MirrorResult, mirror
from steelyard.services.backup.sink import archive_rest
from steelyard.services.identity import inspect
from steelyard.settings import Settings
from steelyard_common.errors import Refused
from steelyard_evaluation.storage.store import open_store


@dataclass(frozen=True)
class BackupResult:
    """A backup that was completed."""

    backup: str
    accounts: int
    mirrored: MirrorResult | None

    def lines(self) -> list[str]:
        """The result for a person."""
        lines = [f"{self.backup}: has every entity, and a copy of {self.accounts} accounts"]
        if self.mirrored is not None:
            lines.append(f"mirror: {self.mirrored.copied} objects copied, {self.mirrored.removed} removed")
        return lines


async def write_backup(settings: Settings, state: StateDir, now: datetime) -> BackupResult:
    """Complete the backup. Raises Refused where there is no installation, or its engines do not belong together."""
    missing = [name for name in ("log", "accounts") if not_made_yet(getattr(settings, name))]
    if missing:
        raise Refused(
            f"{missing[0]} {without_password(getattr(settings, missing[0]))}: there is no installation yet"
        )
    keys = secret_keys(state, settings)
    if keys is None:
        raise Refused("secret_keys: names no file of keys, with which the copy of the accounts is encrypted")
    async with open_engines(settings) as opened:
        known = outlets(opened, settings)
        inspection = await inspect(opened.log, known)
        # A backup of another installation would hold a mixture of both.
        if faults := [f"{name}: {fault}" for name, fault in inspection.faults.items()]:
            raise Refused(f"nothing was written: {'; '.join(faults)}")
        if inspection.origins[known.backup[0]] is None:
            raise Refused(f"backup {settings.backup}: the platform has not been started on it yet")
        await archive_rest(opened.log, opened.backup)
        accounts = await write_copy(opened.accounts_database, keys, opened.backup, now)
        await remove_old_copies(opened.backup, timedelta(days=settings.archive.keep_days), now)
        mirrored = None
        if settings.mirror:
            mirrored = await mirror(opened.store, opened.backup, open_store(settings.mirror), now)
    return BackupResult(settings.backup, accounts, mirrored)
