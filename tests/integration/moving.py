"""An installation that is in use, for tests that move it: what it holds, before and after."""

import orjson

from steelyard.accounts.tokens import Tokens
from steelyard.broker.log import AGGREGATOR, DEAD, EVENTS, STATE, Message
from steelyard.broker.quarantine.administration import list_entries
from steelyard.broker.quarantine.dead_letters import list_waiting
from steelyard.broker.simulation.replay import work_off
from steelyard.local.engines import Engines, open_engines, outlets
from steelyard.local.restoring import fill_view
from steelyard.services.aggregator.aggregator import Aggregator
from steelyard.services.aggregator.messages import FORGOTTEN
from steelyard.services.identity import IDENTITY, enter
from steelyard.services.simulation.commands import aggregate, create, forget, headers, labels, message, status
from steelyard.services.simulation.entities import START, make_dataset, make_evaluation
from steelyard.settings import Settings
from steelyard.testing.engines.log import everything
from steelyard.views.fields import FILTERS
from steelyard.views.view import Query
from steelyard_common.types import Json
from steelyard_schema.account import AccessGrant, Identity

EXPIRES = START.replace(year=2099)


async def use(settings: Settings) -> str:
    """Use an installation: entities, some of them forgotten, in quarantine or not judged yet; files; a token."""
    async with open_engines(settings) as opened:
        await enter(opened.log, settings.log, outlets(opened, settings), "")
        log = opened.log
        entities = [make_dataset(f"d{number}") for number in range(40)]
        await aggregate(log, *(message(create(entity)) for entity in entities))
        await aggregate(log, message(create(make_evaluation())), message(labels(entities[3], a="1")))
        await aggregate(log, message(status(entities[5], "Deleted")), message(status(entities[6], "Deleted")))
        await aggregate(log, message(forget(entities[5]), "reaper"))
        broken = Message(EVENTS, "d9", b'{"schemaVersion":"0.1","command":"Explode"}', headers("informer"))
        await aggregate(log, broken, message(labels(entities[9], held="1")))
        await fill_view(log, opened.view)
        # Accepted, and not judged yet.
        await log.publish([message(labels(entities[10], late="1")), message(labels(entities[9], late="1"))])
        for number in range(5):
            await opened.store.put(f"datasets/d{number}/data ü.parquet", bytes([number]) * 70_000)
        await opened.store.put("datasets/empty", b"")
        accounts = opened.accounts_database.accounts
        account = await accounts.create("me\u00e4", Identity(), START)
        await accounts.set_permissions(account.id or "", GRANTS)
        account = await accounts.get(account.id or "") or account
        return await Tokens(accounts).mint(account, f"accounts/{account.id}", GRANTS, EXPIRES, START)


GRANTS = [AccessGrant.parse({"resources": ["datasets"], "functions": ["get"], "accounts": ["acme"]})]


async def contents(settings: Settings, token: str) -> Json:
    """Return what an installation holds, without the places in its log."""
    async with open_engines(settings) as opened:
        access = await Tokens(opened.accounts_database.accounts).authenticate(token, START)
        return {
            "token": [grant.dump() for grant in access.grants],
            "accounts": [account.dump() for account in await opened.accounts_database.accounts.list()],
            "view": {
                stored.id: orjson.loads(stored.json)
                for kind in FILTERS
                for stored in await opened.view.query(Query(kind))
            },
            "states": {
                record.key: (record.value, FORGOTTEN in record.headers, record.headers["id"])
                for record in await everything(opened.log, STATE)
            },
            "commands": sorted(record.headers["id"] for record in await everything(opened.log, EVENTS)),
            "dead": [record.value for record in await everything(opened.log, DEAD)],
            "storage": {
                info.key: await opened.store.get(info.key)
                async for info in opened.store.list()
                if info.key != IDENTITY
            },
        }


async def go_on(settings: Settings) -> Json:
    """Start the platform: what waited is judged. Its log must be the one that everything belongs to."""
    async with open_engines(settings) as opened:
        await enter(opened.log, settings.log, outlets(opened, settings), "")
        return await _work(opened)


async def _work(opened: Engines) -> Json:
    before = {record.key: record.value for record in await everything(opened.log, STATE)}
    await work_off(opened.log, AGGREGATOR, EVENTS, Aggregator)
    after = {record.key: record.value for record in await everything(opened.log, STATE)}
    return {
        "changed": sorted(key for key in after if after[key] != before.get(key)),
        "held": [record.value for record in await list_waiting(opened.log, "d9")],
        "quarantined": [entity.key for entity in await list_entries(opened.log)],
        "labels": orjson.loads(after["d10"] or b"")["labels"],
    }
