"""The platform's engines, opened once per process, and only if they belong together.

`platform.py` opens them for its services, `acceptance.py` for an administrator who says that they do belong together.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.accounts.database import AccountsDatabaseError
from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.broker.log import STATE, Log, LogError
from steelyard.broker.open import open_log
from steelyard.engines.addresses import without_password
from steelyard.local.machine import check_engines
from steelyard.local.state import StateDir
from steelyard.services.identity import Outlets, StorageOutlet, enter
from steelyard.services.sinks.view import BackupOutlet
from steelyard.settings import Settings
from steelyard.sqlite import Damaged, DatabaseError, WrongSchema
from steelyard.views.open import open_view
from steelyard.views.view import View, ViewError
from steelyard_common.errors import Refused, SteelyardError
from steelyard_common.figures import Figures
from steelyard_evaluation.storage.store import ObjectMissing, StorageError, Store, open_store, probe

IMPORTED = ".steelyard/import.json"
"""Object of a storage into which a package is being imported: a call that was cut short is known by it."""
_PUT_BACK = "Nothing was changed. Put the right file back; or "
"""Beginning of the advice about a file that is not damaged."""


@dataclass(frozen=True)
class Engines:
    """Engines that the services work on."""

    log: Log
    view: View
    accounts_database: AccountsDatabase
    store: Store
    backup: Store
    figures: Figures = field(default_factory=Figures)
    """Figures of every service of the process."""


@asynccontextmanager
async def engines(settings: Settings, advice: str, folder: Path) -> AsyncIterator[Engines]:
    """Opened by the addresses in the settings; closed in the opposite order.

    Raises Refused, with `advice` where they do not belong together, and where they are new although the state folder
    has an installation, or an import into them was cut short; nothing has been changed then.
    """
    await check_files(settings, advice)
    async with open_engines(settings, advice) as opened:
        with _in_words():
            await _check_left_behind(opened.log, settings, _log_file(folder))
            for url, store in ((settings.storage, opened.store), (settings.backup, opened.backup)):
                if not url.startswith(("file:", "/")):  # a server may be too old to create only
                    await probe(store)
            await _check_imported(opened.log, settings, opened.store)
            await enter(opened.log, settings.log, outlets(opened, settings), advice)
        yield opened


@asynccontextmanager
async def open_engines(settings: Settings, advice: str = "") -> AsyncIterator[Engines]:
    """The same, whether or not they belong together; files that are not there are made."""
    check_engines({"log": settings.log, "view": settings.view, "accounts": settings.accounts})
    async with AsyncExitStack() as stack:
        with _in_words(advice):
            log = await open_log(settings.log)
            stack.push_async_callback(log.close)
            accounts_database = await open_accounts_database(settings.accounts)
            stack.push_async_callback(accounts_database.close)
            view = await open_view(settings.view)
            stack.push_async_callback(view.close)
            storage, backup = open_store(settings.storage), open_store(settings.backup)
        yield Engines(log, view, accounts_database, storage, backup)


def outlets(opened: Engines, settings: Settings) -> Outlets:
    return Outlets(
        view=(f"view {without_password(settings.view)}", opened.view),
        backup=(f"backup {settings.backup}", BackupOutlet(opened.backup)),
        storage=(f"storage {settings.storage}", StorageOutlet(opened.store)),
        accounts=(f"accounts {without_password(settings.accounts)}", opened.accounts_database.origin),
    )


def engine_files(settings: Settings) -> list[Path]:
    """Returns the files of log, view and accounts; those that are servers are left out."""
    addresses = (settings.log, settings.view, settings.accounts)
    return [Path(address.removeprefix("sqlite:")) for address in addresses if address.startswith("sqlite:")]


def on_servers(settings: Settings) -> bool:
    """Return whether an engine is a server, which may be away for a while."""
    addresses = (settings.log, settings.view, settings.accounts, settings.storage, settings.backup)
    return not all(address.startswith(("sqlite:", "file:", "/")) for address in addresses)


def advice(state: StateDir, settings_file: Path | None) -> str:
    """Return the commands by which an administrator goes on."""
    options = f"--state-dir {state.path}" + (f" --settings {settings_file}" if settings_file else "")
    return (
        f"{_PUT_BACK}rebuild what the log lacks from the backup: steelyard log restore {options}; "
        f"or accept things as they are: steelyard log accept {options}"
    )


async def check_files(settings: Settings, advice: str) -> None:
    """Raises Refused where the file of log or accounts is gone from an installation: an empty one must not be made."""
    losses = {name: _loss(getattr(settings, name)) for name in ("log", "accounts")}
    if not any(losses.values()) or not (witness := await _witness(settings)):
        return
    lost = "; ".join(f"{name} {getattr(settings, name)}: {loss}" for name, loss in losses.items() if loss)
    raise Refused(f"{lost}, but {witness} shows that this installation has been in use. {advice}")


def _log_file(folder: Path) -> Path:
    """Return the file that is the log of a state folder unless the settings name another one."""
    return folder.resolve() / "log.db"


async def _check_left_behind(log: Log, settings: Settings, before: Path) -> None:
    """Raises Refused where the log is empty, and the file that the state folder had as a log is not.

    A user who names new engines in the settings may expect that earlier entities move to them.
    """
    address = f"sqlite:{before}"
    if settings.log == address or _loss(address) or any((await log.ends(STATE)).values()):
        return
    file = await open_log(address, log.partitions)
    used = any((await file.ends(STATE)).values())
    await file.close()
    if used:
        raise Refused(
            f"log {without_password(settings.log)} is empty, and {before} has an installation, which does not move by "
            "itself: `steelyard export` without these settings and `steelyard import` with them move it; to begin "
            "with nothing, name another --state-dir"
        )


async def _check_imported(log: Log, settings: Settings, store: Store) -> None:
    """Raises Refused where an import was cut short: the platform would start with a part of the installation."""
    try:
        await store.head(IMPORTED)
    except ObjectMissing:
        return
    origin = await StorageOutlet(store).origin()
    if origin is None or origin.log != log.id:
        raise Refused(
            f"storage {settings.storage}: `steelyard import` was cut short; call it again. If it had begun to write "
            f"the log {without_password(settings.log)}, the log has to be emptied before"
        )
    # The log is accepted last, and so all was written: only the mark was left.
    await store.delete(IMPORTED)


def _loss(address: str) -> str | None:
    """Says of a file that the address names that it is not there, or has nothing in it."""
    scheme, _, path = address.partition(":")
    if scheme != "sqlite":
        return None
    try:
        return None if Path(path).stat().st_size else "is empty"
    except FileNotFoundError:
        return "is not there"


async def _witness(settings: Settings) -> str | None:
    """An engine which is there and was used before."""
    with _in_words():
        store, backup = open_store(settings.storage), open_store(settings.backup)
        for outlet, name in ((StorageOutlet(store), "storage"), (BackupOutlet(backup), "backup")):
            if await outlet.origin() is not None:
                return f"{name} {getattr(settings, name)}"
        if _loss(settings.log) is None:
            log = await open_log(settings.log)
            ends = await log.ends(STATE)
            await log.close()
            return f"log {settings.log}" if any(ends.values()) else None
        if _loss(settings.accounts) is None:
            accounts_database = await open_accounts_database(settings.accounts)
            origin = await accounts_database.origin.origin()
            await accounts_database.close()
            return f"accounts {without_password(settings.accounts)}" if origin is not None else None
    return None


@contextlib.contextmanager
def _in_words(advice: str = "") -> Iterator[None]:
    """Turn what keeps an engine from being opened into an error of one line, without a traceback.

    `advice` is added where the file is not what it was. Its commands refuse the file, too, until it is kept aside.
    """
    try:
        yield
    except Refused:
        raise
    except StorageError as error:
        raise SteelyardError(str(error)) from error
    except (DatabaseError, AccountsDatabaseError, LogError, ViewError) as error:
        damaged = any(isinstance(cause, Damaged | WrongSchema) for cause in _with_causes(error))
        commands = advice.removeprefix(_PUT_BACK)
        said = f"{error}; or keep it aside, and then {commands}" if damaged and advice else str(error)
        raise Refused(said) from error


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
