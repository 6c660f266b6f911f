"""Each file of an installation is taken away, cut, emptied, put back from an older copy, or is another one.

What can be derived is built again. Everything else is refused with a line that names the file, nothing that is left is
changed, and the command that the line names goes on. The services run in this process on SQLite files;
`test_lost_state.py` does the same to a folder of `steelyard up`. STEELYARD_FILES_SEED chooses which cases run outside
of `make soak`.
"""

import asyncio
import os
import random
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard.broker.open import open_log
from steelyard.local.acceptance import accept_log, report, restore_log
from steelyard.local.engines import advice
from steelyard.local.files import prepare
from steelyard.local.platform import run_platform
from steelyard.local.process import SERVICES as ALL
from steelyard.local.state import StateDir
from steelyard.services.simulation.commands import create, message
from steelyard.services.simulation.entities import make_dataset
from steelyard.settings import Settings, load
from steelyard.views.open import open_view
from steelyard_common.errors import Refused
from steelyard_schema.base import DyffEntity

SEED = int(os.environ.get("STEELYARD_FILES_SEED", "1"))
FEW = 12
SERVICES = tuple(service for service in ALL if service not in ("orchestrator", "informer"))
"""Services that need no Kubernetes."""
OLD = [make_dataset(f"{number:032x}") for number in range(1, 4)]
NEW = [make_dataset(f"{number:032x}") for number in range(4, 7)]
IDENTITY, POSITIONS = "storage/.steelyard/identity.json", "backup/positions.json"
FILES = ("log.db", "accounts.db", "view.db", "backup", "storage", POSITIONS, IDENTITY)
Damage = Callable[[Path, Path], None]
"""Does something to a file of the folder of an installation; the second folder has older copies and strangers."""


def taken_away(path: Path, other: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def emptied(path: Path, other: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
        path.mkdir()
    else:
        path.write_bytes(b"")


def cut_in_half(path: Path, other: Path) -> None:
    files = sorted(entry for entry in path.rglob("*") if entry.is_file()) if path.is_dir() else [path]
    for file in files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def replaced(path: Path, by: Path) -> None:
    taken_away(path, by)
    shutil.copytree(by, path) if by.is_dir() else shutil.copy2(by, path)


def an_older_copy(path: Path, other: Path) -> None:
    replaced(path, other / "older" / path.relative_to(other / "now"))


def anothers(path: Path, other: Path) -> None:
    replaced(path, other / "stranger" / path.relative_to(other / "now"))


def swapped(path: Path, other: Path) -> None:
    """Exchanges a file for the next file, or a folder for the next folder."""
    folder = other / "now"
    same = [folder / name for name in FILES if (folder / name).is_dir() == path.is_dir()]
    second = same[(same.index(path) + 1) % len(same)]
    path.rename(folder / "third")
    second.rename(path)
    (folder / "third").rename(second)


DAMAGES: Mapping[str, Damage] = {
    damage.__name__: damage for damage in (taken_away, emptied, cut_in_half, an_older_copy, anothers, swapped)
}
GOES_ON = {
    *(("view.db", damage) for damage in DAMAGES if damage != "swapped"),
    *((file, "an_older_copy") for file in FILES if file != "log.db"),
    ("backup", "taken_away"),
    ("backup", "emptied"),
}
"""Files that can be derived, or whose older copy follows the log again."""
CASES = [(file, damage) for file in FILES for damage in DAMAGES]
CHOSEN = random.Random(SEED).sample(CASES, FEW)


def settings_of(folder: Path) -> Settings:
    return load(None, folder)


async def run(folder: Path, until: "asyncio.Future[None] | None" = None, *names: str) -> None:
    """The services on the folder until the future is done; raises what ends them."""
    state = StateDir(folder)
    prepare(state)
    stop = asyncio.Event()
    running = asyncio.create_task(
        run_platform(state, settings_of(folder), names or SERVICES, port=0, stop=stop, ready=lambda: None)
    )
    waiting = [running] if until is None else [running, until]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    await running


async def shown(folder: Path, *entities: DyffEntity) -> None:
    """The services run until view and backup have the entities, and no others."""
    ids = {entity.id for entity in entities}

    async def are_there() -> None:
        view = await open_view(settings_of(folder).view)
        while True:
            known = {entity.id for entity in (*OLD, *NEW) if await view.find(entity.id)}
            if known == ids and ids <= backed_up(folder):
                return await view.close()
            await asyncio.sleep(0.02)

    async with asyncio.timeout(30):
        await run(folder, asyncio.ensure_future(are_there()))


def backed_up(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "backup" / "entities").rglob("*.json")}


async def publish(folder: Path, *entities: DyffEntity) -> None:
    log = await open_log(settings_of(folder).log)
    await log.publish([message(create(entity)) for entity in entities])
    await log.close()


async def make(folder: Path) -> None:
    """`now` is an installation, `older` a copy of it, `stranger` another one."""
    for name in ("now", "stranger"):
        await run(folder / name, asyncio.ensure_future(asyncio.sleep(0)))
        await publish(folder / name, *OLD)
        await shown(folder / name, *OLD)
    shutil.copytree(folder / "now", folder / "older")
    await publish(folder / "now", *NEW)
    await shown(folder / "now", *OLD, *NEW)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installation")
    asyncio.run(make(folder))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file that holds users' data."""
    paths = [folder / "log.db", folder / "accounts.db", *folder.glob("view.db*")]
    paths += [path for name in ("backup", "storage") for path in (folder / name).rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in paths if path.is_file()}


def _mark(case: tuple[str, str]) -> tuple[pytest.MarkDecorator, ...]:
    return () if case in CHOSEN else (pytest.mark.soak,)


@pytest.mark.parametrize(
    ("file", "damage"), [pytest.param(*case, id="-".join(case), marks=_mark(case)) for case in CASES]
)
async def test_a_file_is_lost_or_damaged(made: Path, tmp_path: Path, file: str, damage: str) -> None:
    other = tmp_path / "copy"
    await asyncio.to_thread(shutil.copytree, made, other)
    folder = other / "now"
    DAMAGES[damage](folder / file, other)
    if (file, damage) in GOES_ON:
        await shown(folder, *OLD, *NEW)
        return
    before = contents(folder)
    with pytest.raises(Refused) as refused:
        await run(folder)
    line = str(refused.value)
    assert "\n" not in line
    assert str(folder) in line
    assert f"--state-dir {folder}" in line, "it says how to go on"
    assert set(before.values()) <= set(contents(folder).values())
    for name in ("log.db", "accounts.db"):
        path = str(folder / name)
        assert contents(folder).get(path) == before.get(path), "nothing was made in its place"


async def test_a_lost_log_comes_back_from_the_backup(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "now"
    await asyncio.to_thread(shutil.copytree, made / "now", folder)
    taken_away(folder / "log.db", folder)
    done = await restore_log(settings_of(folder), datetime.now(UTC))
    assert done.epoch == 2
    assert done.restored is not None
    assert done.restored.entities == 6
    await shown(folder, *OLD, *NEW)


@pytest.mark.parametrize("file", ["log.db", "accounts.db"])
async def test_the_advice_about_a_damaged_file_can_be_followed(made: Path, tmp_path: Path, file: str) -> None:
    """The commands of the advice open the file, too: it is to be kept aside before, and they say that as well."""
    folder = tmp_path / "now"
    await asyncio.to_thread(shutil.copytree, made / "now", folder)
    (folder / file).write_bytes(b"\0" * 5000)
    how_to_go_on = advice(StateDir(folder), None)
    said = rf"{file}: is damaged .*; or keep it aside, and then rebuild .*: steelyard log restore --state-dir {folder}"
    with pytest.raises(Refused, match=said):
        await run(folder)
    with pytest.raises(Refused, match=said):
        await report(settings_of(folder), how_to_go_on)
    (folder / file).rename(folder / "aside")
    await report(settings_of(folder), how_to_go_on)
    await restore_log(settings_of(folder), datetime.now(UTC))
    await shown(folder, *OLD, *NEW)


async def test_an_older_log_comes_forward_with_the_backup(made: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    await asyncio.to_thread(shutil.copytree, made, other)
    an_older_copy(other / "now" / "log.db", other)
    await restore_log(settings_of(other / "now"), datetime.now(UTC))
    await shown(other / "now", *OLD, *NEW)


async def test_an_older_log_can_be_accepted_as_it_is(made: Path, tmp_path: Path) -> None:
    """Entities that the log does not know leave the view, and the backup keeps them."""
    other = tmp_path / "copy"
    await asyncio.to_thread(shutil.copytree, made, other)
    folder = other / "now"
    an_older_copy(folder / "log.db", other)
    await accept_log(settings_of(folder))
    await shown(folder, *OLD)
    assert len(backed_up(folder)) == 6


@pytest.mark.parametrize(
    "name", ["aggregator", "view-sink", "backup-sink", "reaper", "orchestrator", "informer", "api"]
)
async def test_every_service_refuses_an_empty_log(made: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "now"
    await asyncio.to_thread(shutil.copytree, made / "now", folder)
    taken_away(folder / "log.db", folder)
    await (await open_log(settings_of(folder).log)).close()
    before = contents(folder)
    with pytest.raises(Refused, match="steelyard log accept --state-dir"):
        await run(folder, None, name)
    assert contents(folder) == before
