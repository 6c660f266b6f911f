"""Administrators bring back deleted or forgotten entities, and they stay."""

import asyncio
import copy
from datetime import timedelta

import pytest

from steelyard.broker.log import EVENTS, STATE, Log, Message, Record
from steelyard.services.backup.archive import Archive
from steelyard.services.backup.entity import Backup
from steelyard.services.backup.settings import BackupSettings
from steelyard.services.backup.sink import run_archive_sink
from steelyard.services.reaper.reaper import due, reap
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import Store, open_store
from steelyard_schema.commands import ForgetData, ForgetEntity, command_time
from tests.platform_api.memory_platform import MemoryPlatform, dataset, grant, make_engines, make_platform

MONTH = timedelta(days=30)


async def archive_all(log: Log, store: Store) -> None:
    stop = asyncio.Event()

    async def changed(since: int, timeout: float) -> int:
        stop.set()
        return since

    watched = copy.copy(log)
    watched.wait_for_change = changed  # type: ignore[method-assign]
    await run_archive_sink(watched, store, BackupSettings(), stop=stop)


async def newest(log: Log, id: str) -> Record:
    record = await log.latest(STATE, id)
    assert record, f"the log knows nothing of {id}"
    return record


async def forgotten(platform: MemoryPlatform, id: str) -> None:
    """Wait until the view has the entity no more."""
    view = platform.engines.view
    async with asyncio.timeout(60):
        while await view.find(id) is not None:
            await view.wait_for_change(view.version(), 0.1)


@pytest.mark.parametrize("buried", [False, True])
async def test_a_forgotten_entity_comes_back_and_stays(buried: bool) -> None:
    engines, store = await make_engines(), open_store(f"memory://api-backup-{buried}")
    async with make_platform(engines, backup=Backup(store)) as platform:
        entity = await platform.created("datasets", **dataset())
        id, log = entity["id"], engines.log
        await platform.settled("Dataset", id)
        assert (await platform.admin.put(f"/backup/{id}/restore")).status_code == 409
        await platform.admin.patch(f"/datasets/{id}/labels", json={"labels": {"a": "1"}})
        assert (await platform.admin.put(f"/datasets/{id}/delete")).status_code == 200
        await archive_all(log, store)
        later = engines.clock() + MONTH
        assert await reap(log, later) == 1
        await forgotten(platform, id)
        if buried:
            # What the reaper gives then, without its last act: by its clock, a month ahead, a tombstone may go as soon
            # as it is written.
            command = due(await newest(log, id), later + MONTH)
            assert command
            await log.publish([command])
            async with asyncio.timeout(60):
                while (await newest(log, id)).value is not None:
                    await log.wait_for_change(log.version(), 0.1)
        answer = await platform.admin.put(f"/backup/{id}/restore")
        assert answer.status_code == 200, answer.text
        assert answer.json()["status"] == "Error", "it was never uploaded"
        shown = (await platform.admin.get(f"/datasets/{id}")).json()
        assert (shown["labels"], shown["status"], shown["name"]) == ({"a": "1"}, "Error", entity["name"])
        # Whatever is sent again of its earlier life, and however often the reaper looks, it stays.
        data = ForgetData(id=id, kind="Dataset")
        headers = {"id": "f" * 32, "source": "reaper", "time": command_time(later)}
        await log.publish([Message(EVENTS, id, ForgetEntity(data=data).dump_json(), headers)])
        assert await reap(log, later + MONTH) == 0
        assert (await platform.admin.put(f"/backup/{id}/restore")).status_code == 409
        assert (await platform.admin.get(f"/datasets/{id}")).json() == shown
        await archive_all(log, store)
        assert await Backup(store).last_content(id, await newest(log, id)) == shown
    await engines.accounts_database.close()


async def test_one_that_no_sink_saw_deleted_comes_back_as_ended() -> None:
    engines, store = await make_engines(), open_store("memory://api-backup-unseen")
    async with make_platform(engines, backup=Backup(store)) as platform:
        entity = await platform.created("datasets", **dataset())
        id, log = entity["id"], engines.log
        await platform.settled("Dataset", id)
        await archive_all(log, store)
        # No sink runs for a week.
        assert (await platform.admin.put(f"/datasets/{id}/delete")).status_code == 200
        assert await reap(log, engines.clock() + MONTH) == 1
        await forgotten(platform, id)
        await archive_all(log, store)
        answer = await platform.admin.put(f"/backup/{id}/restore")
        assert answer.status_code == 200, answer.text
        shown = (await platform.admin.get(f"/datasets/{id}")).json()
        assert (shown["status"], shown["reason"], shown["name"]) == ("Error", "Restored", entity["name"])
    await engines.accounts_database.close()


async def test_one_that_is_forgotten_while_it_is_restored_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    engines, store = await make_engines(), open_store("memory://api-backup-meanwhile")
    read = Backup.last_content

    async def reap_and_read(backup: Backup, id: str, latest: Record) -> Json | None:
        await reap(engines.log, engines.clock() + MONTH)
        await forgotten(platform, id)
        return await read(backup, id, latest)

    async with make_platform(engines, backup=Backup(store)) as platform:
        id = (await platform.created("datasets", **dataset()))["id"]
        await platform.settled("Dataset", id)
        assert (await platform.admin.put(f"/datasets/{id}/delete")).status_code == 200
        await archive_all(engines.log, store)
        monkeypatch.setattr(Backup, "last_content", reap_and_read)
        answer = await platform.admin.put(f"/backup/{id}/restore")
        assert answer.status_code == 200, answer.text
        assert (await platform.admin.get(f"/datasets/{id}")).json()["status"] == "Error"
    await engines.accounts_database.close()


async def test_who_may_restore_and_what() -> None:
    engines, store = await make_engines(), open_store("memory://api-backup-rights")
    async with make_platform(engines, backup=Backup(store)) as platform:
        entity = await platform.created("datasets", **dataset())
        id = entity["id"]
        await platform.settled("Dataset", id)
        user = await platform.holder(grant("datasets", "*"))
        assert (await user.put(f"/backup/{id}/restore")).status_code == 403
        assert (await platform.admin.put(f"/backup/{'0' * 32}/restore")).status_code == 404
        await platform.admin.put(f"/datasets/{id}/delete")
        assert (await platform.admin.put(f"/backup/{id}/restore")).status_code == 200, "without the archive"
        await platform.admin.put(f"/datasets/{id}/delete")
        await reap(engines.log, engines.clock() + MONTH)
        await forgotten(platform, id)
        gone = await platform.admin.put(f"/backup/{id}/restore")
        assert gone.status_code == 404
        assert "in the backup no more" in gone.text
        await archive_all(engines.log, store)
        (segment, *_) = (await Archive(store).contents()).segments
        await store.put(segment.key, b"cut")
        unreadable = await platform.admin.put(f"/backup/{id}/restore")
        assert unreadable.status_code == 503
        assert segment.key in unreadable.text
    await engines.accounts_database.close()
