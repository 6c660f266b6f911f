"""Logs that the outlets accept, what an acceptance changes, and how a lost log comes back from the backup."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from itertools import count

import orjson
import pytest

from steelyard.accounts.open import AccountsDatabase, open_accounts_database
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import OUTCOMES, STATE, Message
from steelyard.services.identity import (
    IDENTITY,
    LogRefused,
    Outlets,
    StorageOutlet,
    accept,
    enter,
    inspect,
    next_epoch,
)
from steelyard.services.simulation.commands import aggregate, create, labels, message
from steelyard.services.simulation.entities import START, make_dataset, make_evaluation, make_model
from steelyard.services.sinks.restore import RestoreResult, restore
from steelyard.services.sinks.view import BackupOutlet, ViewOutlet
from steelyard.testing.engines.claims import claim
from steelyard.testing.engines.log import everything
from steelyard.testing.engines.outbox import row
from steelyard.views.in_memory import MemoryView
from steelyard_evaluation.storage.store import Store, open_store
from steelyard_schema.base import DyffEntity

EVALUATION, MODEL, DATASET = make_evaluation(), make_model(), make_dataset()
_numbers = count()


@dataclass(frozen=True)
class Installation:
    """A log and its outlets; what of it a test takes away is replaced."""

    log: MemoryLog
    view: MemoryView
    accounts_database: AccountsDatabase
    backup: Store
    storage: Store

    @property
    def outlets(self) -> Outlets:
        return Outlets(
            view=("view", self.view),
            backup=("backup", BackupOutlet(self.backup)),
            storage=("storage", StorageOutlet(self.storage)),
            accounts=("accounts", self.accounts_database.origin),
        )

    async def enter(self) -> None:
        await enter(self.log, "log.db", self.outlets, "advice")

    async def follow(self) -> None:
        """Follow the log as sinks and orchestrator do."""
        for outlet in (ViewOutlet(self.view), BackupOutlet(self.backup)):
            positions = await outlet.positions(self.log.epoch)
            for partition in range(self.log.partitions):
                records = await self.log.read(STATE, partition, positions.get(partition, 0))
                if records:
                    await outlet.apply(records, self.log.epoch, {partition: records[-1].offset + 1})

    async def refusal(self) -> str:
        """Why the log is refused; that changes no outlet."""
        before = (await inspect(self.log, self.outlets)).origins
        with pytest.raises(LogRefused) as refused:
            await self.enter()
        assert (await inspect(self.log, self.outlets)).origins == before
        return str(refused.value)

    async def backed_up(self) -> list[str]:
        return [item.key.rpartition("/")[2] async for item in self.backup.list("entities/")]


def store() -> Store:
    return open_store(f"memory://identity-{next(_numbers)}")


async def log_of(*entities: DyffEntity, id: str = "0123456789", epoch: int = 1) -> MemoryLog:
    log = MemoryLog(id=id, epoch=epoch)
    await aggregate(log, *(message(create(entity)) for entity in entities))
    return log


@pytest.fixture
async def used() -> AsyncIterator[Installation]:
    """Three entities, all of them followed."""
    accounts_database = await open_accounts_database("memory:")
    made = Installation(MemoryLog(id="0123456789"), MemoryView(), accounts_database, store(), store())
    await made.enter()
    await aggregate(made.log, *(message(create(entity)) for entity in (EVALUATION, MODEL, DATASET)))
    await made.follow()
    yield made
    await accounts_database.close()


async def test_the_first_start_writes_the_logs_id_into_every_outlet(used: Installation) -> None:
    origins = (await inspect(used.log, used.outlets)).origins
    assert {origin and (origin.log, origin.epoch) for origin in origins.values()} == {("0123456789", 1)}
    await used.enter()


async def test_a_refusal_does_not_show_the_password_of_the_address(used: Installation) -> None:
    with pytest.raises(LogRefused, match=r"^log kafka://user:\*\*\*@broker:9092 ") as refused:
        await enter(MemoryLog(id="another"), "kafka://user:secret@broker:9092", used.outlets, "advice")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("fresh", ["", "view", "view backup", "view backup accounts"])
async def test_a_first_start_that_was_cut_short_is_taken_up(fresh: str) -> None:
    accounts_database = await open_accounts_database("memory:")
    made = Installation(MemoryLog(), MemoryView(), accounts_database, store(), store())
    for name in fresh.split():
        await made.outlets.all()[name].set_origin(made.log.id, made.log.epoch)
    await made.enter()
    await accounts_database.close()


STRANGERS: dict[str, tuple[Callable[[], Awaitable[MemoryLog]], str]] = {
    "an empty log": (lambda: log_of(id="9876543210"), "belongs to log 01234567"),
    "another log": (lambda: log_of(MODEL, DATASET, id="9876543210"), "belongs to log 01234567"),
    "another log of a later epoch": (lambda: log_of(MODEL, id="9876543210", epoch=9), "belongs to log 01234567"),
    "the log emptied": (log_of, "the log ends at 0"),
    "an older copy": (lambda: log_of(EVALUATION), "cut short, or an older copy was put back"),
}  # fmt: skip


@pytest.mark.parametrize(("strange", "said"), STRANGERS.values(), ids=STRANGERS)
async def test_another_log_is_refused_and_nothing_changes(
    used: Installation, strange: Callable[[], Awaitable[MemoryLog]], said: str
) -> None:
    changed = replace(used, log=await strange())
    refusal = await changed.refusal()
    assert said in refusal
    assert refusal.startswith("log log.db (id ")
    assert refusal.endswith("advice")
    assert len(await used.backed_up()) == 3


async def test_a_copy_from_before_an_acceptance_is_refused(used: Installation) -> None:
    await accept(used.log, used.outlets, used.accounts_database.outbox)
    copy = replace(used, log=await log_of(EVALUATION, MODEL, DATASET))
    assert "has seen epoch 2 of the log: an older copy of the log was put back" in await copy.refusal()


async def test_a_command_that_the_log_has_lost_is_missed_though_it_was_never_read(
    used: Installation,
) -> None:
    await used.accounts_database.outbox.add(row("c1"))
    await used.accounts_database.outbox.note_sent("c1", (3, 1000))
    assert "has read workflows.events up to offset 1001 of partition 3" in await used.refusal()


async def test_accounts_that_were_made_again_are_refused(used: Installation) -> None:
    accounts_database = await open_accounts_database("memory:")
    assert (
        "accounts: is empty, and the log is not"
        in await replace(used, accounts_database=accounts_database).refusal()
    )
    await accounts_database.close()


async def test_a_storage_that_is_empty_or_anothers_is_refused(used: Installation) -> None:
    changed = replace(used, storage=store())
    assert f"storage: lacks {IDENTITY}" in await changed.refusal()
    await StorageOutlet(changed.storage).set_origin("another log", 1)
    assert "storage: belongs to log another " in await changed.refusal()
    await changed.storage.put(IDENTITY, b"\xff")
    assert f"storage: {IDENTITY} cannot be read" in await changed.refusal()


async def test_another_installations_backup_is_refused(used: Installation) -> None:
    changed = replace(used, backup=store())
    await BackupOutlet(changed.backup).set_origin("another log", 1)
    assert "backup: belongs to log another " in await changed.refusal()


@pytest.mark.parametrize("known", [None, ("another log", 7)])
async def test_a_view_that_is_lost_or_of_another_log_is_built_again(
    used: Installation, known: tuple[str, int] | None
) -> None:
    changed = replace(used, view=MemoryView())
    if known:
        await changed.view.set_origin(*known)
    await changed.enter()
    await changed.follow()
    assert await changed.view.find(MODEL.id)
    assert await changed.view.origin() == await used.view.origin()


async def test_a_backup_that_is_lost_is_filled_again(used: Installation) -> None:
    changed = replace(used, backup=store())
    await changed.enter()
    await changed.follow()
    assert await changed.backed_up() == await used.backed_up()


async def test_older_copies_of_outlets_catch_up(used: Installation) -> None:
    """The copies' positions lie within the log."""
    older = Installation(used.log, MemoryView(), used.accounts_database, store(), used.storage)
    for outlet in (older.view, BackupOutlet(older.backup)):
        await outlet.set_origin(used.log.id, 1)
    await older.enter()
    await older.follow()
    assert await older.backed_up() == await used.backed_up()


async def test_an_accepted_log_counts_from_an_epoch_that_outranks_all(used: Installation) -> None:
    await accept(used.log, used.outlets, used.accounts_database.outbox)
    await accept(used.log, used.outlets, used.accounts_database.outbox)
    log = await log_of(MODEL, id="9876543210")
    changed = replace(used, log=log)
    await accept(log, changed.outlets, used.accounts_database.outbox)
    assert (log.id, log.epoch) == ("9876543210", 4)
    await changed.enter()
    await changed.follow()
    assert len(await used.backed_up()) == 3, "the backup keeps what the log does not name"


async def test_an_acceptance_that_was_cut_short_is_taken_up(used: Installation) -> None:
    """The log has its epoch, and some outlets have not: they refuse it as before, until it is accepted again."""
    changed = replace(used, log=await log_of(MODEL, id="9876543210"))
    await changed.log.begin_epoch(next_epoch(changed.log, await inspect(changed.log, changed.outlets)))
    await changed.view.set_origin(changed.log.id, changed.log.epoch)
    assert "backup: belongs to log 01234567" in await changed.refusal()
    await accept(changed.log, changed.outlets, used.accounts_database.outbox)
    await changed.enter()


async def test_after_an_acceptance_the_log_replaces_what_claims_knew(used: Installation) -> None:
    claims = used.accounts_database.claims
    leader = await claims.lead("one", START)
    await claims.apply([("e1", claim("e1", "Complete", 900))], 1, {0: 901}, leader)
    changed = replace(used, log=await log_of(EVALUATION))
    await accept(changed.log, changed.outlets, used.accounts_database.outbox)
    assert await claims.positions(changed.log.epoch) == {}
    await claims.apply([("e1", claim("e1", "Admitted", 5))], changed.log.epoch, {0: 6}, leader)
    known = await claims.get("e1")
    assert known
    assert known.status == "Admitted"


async def test_acknowledged_creates_that_a_log_has_lost_are_sent_again(used: Installation) -> None:
    outbox = used.accounts_database.outbox
    for command, entity in (("c1", MODEL.id), ("c2", "lost")):
        await outbox.add(row(command, entity=entity))
        await outbox.note_sent(command, (3, 1))
        await outbox.visible([command])
    assert await accept(used.log, used.outlets, outbox) == 1
    assert [row.command for row in await outbox.unsent()] == ["c2"]


# ---- the backup


async def states(log: MemoryLog) -> dict[str, object]:
    return {record.key: orjson.loads(record.value or b"{}") for record in await everything(log, STATE)}


async def restored(installation: Installation) -> RestoreResult:
    """Restore the log as `steelyard log restore` does."""
    log, outlets = installation.log, installation.outlets
    inspection = await inspect(log, outlets)
    epoch = next_epoch(log, inspection)
    done = await restore(log, installation.backup, inspection.origins["backup"], epoch, START)
    await accept(log, outlets, installation.accounts_database.outbox)
    assert log.epoch == epoch
    return done


async def test_a_lost_log_is_rebuilt_from_the_backup_and_goes_on(used: Installation) -> None:
    rebuilt = replace(used, log=MemoryLog(id="9876543210"))
    assert await restored(rebuilt) == RestoreResult(3, ())
    assert await states(rebuilt.log) == await states(used.log)
    await rebuilt.enter()
    await aggregate(rebuilt.log, message(labels(MODEL, a="1")))
    await rebuilt.follow()
    stored = await rebuilt.view.find(MODEL.id)
    assert stored
    assert orjson.loads(stored.json)["labels"] == {"a": "1"}


async def test_of_an_older_copy_the_backup_knows_better(used: Installation) -> None:
    await aggregate(used.log, message(labels(EVALUATION, a="1")))
    await used.follow()
    older = replace(used, log=await log_of(EVALUATION))
    assert await restored(older) == RestoreResult(3, ())
    assert await states(older.log) == await states(used.log)


async def test_what_the_log_has_beyond_the_backup_stays(used: Installation) -> None:
    await aggregate(used.log, message(labels(EVALUATION, a="1")))
    await used.backup.delete(f"entities/models/{MODEL.id}.json")
    before = await states(used.log)
    assert await restored(used) == RestoreResult(0, ())
    assert await states(used.log) == before


async def test_an_object_that_is_no_entity_keeps_no_other_back(used: Installation) -> None:
    await used.backup.put("entities/models/broken.json", b"{")
    rebuilt = replace(used, log=MemoryLog(id="9876543210"))
    assert await restored(rebuilt) == RestoreResult(3, ("entities/models/broken.json",))


async def test_a_rebuilt_log_knows_the_last_command_of_each_entity(used: Installation) -> None:
    """One that is sent again changes nothing."""
    again = message(create(make_model("m2")))
    await aggregate(used.log, again)
    await used.follow()
    rebuilt = replace(used, log=MemoryLog(id="9876543210"))
    assert await restored(rebuilt) == RestoreResult(4, ())
    await aggregate(rebuilt.log, again)
    outcomes = [orjson.loads(record.value or b"") for record in await everything(rebuilt.log, OUTCOMES)]
    assert [outcome["reason"] for outcome in outcomes] == ["Repeated"]


# ---- installations of a version without ids


async def early(epoch: int) -> Installation:
    """View, backup and accounts as such a version has written them, of a log of this epoch."""
    accounts_database = await open_accounts_database("memory:")
    await accounts_database.accounts.add_signing_key("k", b"pem", START)
    leader = await accounts_database.claims.lead("one", START)
    await accounts_database.claims.apply([("e1", claim("e1", epoch=epoch))], epoch, {0: 1}, leader)
    view, backup = MemoryView(), store()
    await view.apply([], epoch, {0: 1})
    await backup.put("positions.json", orjson.dumps({"epoch": epoch, "positions": {"0": 1}, "swept": True}))
    await backup.put("entities/models/m1.json", b"{}")
    return Installation(
        await log_of(MODEL, epoch=1_760_000_000_000), view, accounts_database, backup, store()
    )


async def test_an_installation_of_an_earlier_version_is_taken_over() -> None:
    made = await early(1_760_000_000_000)
    made.log.write([Message(STATE, "e1", b"{}", partition=0)])
    await made.enter()
    origins = (await inspect(made.log, made.outlets)).origins.values()
    assert {origin and origin.log for origin in origins} == {made.log.id}
    assert (await BackupOutlet(made.backup).positions(made.log.epoch)) == {0: 1}
    assert await made.accounts_database.claims.positions(made.log.epoch) == {0: 1}
    await made.accounts_database.close()


async def test_a_log_that_is_not_an_earlier_versions_is_refused() -> None:
    made = await early(1_750_000_000_000)
    refusal = await made.refusal()
    for name in ("view", "backup", "accounts"):
        assert f"{name}: belongs to a log of epoch 1750000000000" in refusal
    await made.accounts_database.close()
