"""Backups on Kafka, PostgreSQL, S3 and MongoDB's protocol: what writes them, and what restores them, is killed.

STEELYARD_KILL_SEED repeats a run's choices.
"""

import asyncio
import random
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from steelyard.broker.log import PARTITIONS, STATE
from steelyard.broker.open import prepare_log
from steelyard.broker.scan import topic_pieces
from steelyard.client import Client
from steelyard.local.engines import open_engines, outlets
from steelyard.local.restoring import fill_view
from steelyard.services.aggregator.messages import FORGOTTEN
from steelyard.services.identity import enter
from steelyard.services.simulation.commands import aggregate, create, forget, labels, message, status
from steelyard.services.simulation.entities import START, make_dataset
from steelyard.settings import Settings, load
from steelyard.steps.source_servers import TOKEN, hub_server
from steelyard.views.fields import FILTERS
from steelyard.views.view import Query
from tests.engines.services import together
from tests.engines.services.conftest import ServedMachine
from tests.engines.services.outside import allow
from tests.engines.services.restored import (
    ENTITIES,
    ask_for,
    check_asked_for,
    check_events,
    copy_database,
    receiver,
)
from tests.engines.services.service import Service
from tests.integration.retention import check_days, live_through
from tests.integration.test_backups import back_up, compare_archive, kill_in_turn
from tests.integration.test_platform_kills import SEED

DATASETS = 2000
KILLS = 3


@pytest.fixture(scope="module")
def services() -> Iterator[dict[str, Service]]:
    with together.services() as services:
        yield services


@pytest.fixture
def machine(machine: ServedMachine, services: dict[str, Service]) -> ServedMachine:
    # A prefix, databases and folders of its own: the servers are those of the whole file.
    name = secrets.token_hex(4)
    with psycopg.connect(services["postgresql"].address, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    place(machine, name, "log", "accounts", "view", "storage", "backup")
    return machine


def place(machine: ServedMachine, name: str, *parts: str) -> None:
    """Let some of the settings, by default all but the accounts, name places that are not there yet."""
    lines = machine.settings.read_text().splitlines()
    for number, line in enumerate(lines):
        part, _, address = line.partition(" = ")
        if part in (parts or ("log", "view", "storage", "backup")):
            address = address.strip('"')
            if part == "view":
                address = address.rpartition("/")[0] + f"/{name}?replicaSet=secantus"
            elif part == "accounts":
                address = address.rpartition("/")[0] + f"/{name}"
            elif part == "log":
                address = "/".join(address.split("/")[:3]) + f"/{name}"
            else:
                address += f"/{name}"
            lines[number] = f'{part} = "{address}"'
    machine.settings.write_text("\n".join(lines))


def command(machine: ServedMachine, *arguments: str) -> list[str]:
    options = ["--settings", str(machine.settings), "--state-dir", str(machine.state.path)]
    return [sys.executable, "-m", "steelyard.cli.main", *arguments, *options]


def steelyard(machine: ServedMachine, *arguments: str) -> str:
    done = subprocess.run(
        command(machine, *arguments), capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.timeout(1800)
def test_a_sink_that_is_killed_at_any_moment_loses_nothing(machine: ServedMachine) -> None:
    settings = load(machine.settings, machine.state.path)
    print(f"\nSTEELYARD_KILL_SEED={SEED}")
    asyncio.run(prepare_now(settings))
    chance = random.Random(SEED)
    # The group of a killed member waits for its session to end.
    kill_in_turn(settings.log, settings.backup, PARTITIONS, chance, KILLS, within=20.0)
    # On a busy machine the sinks may all have been killed before the first snapshot.
    for _ in range(6):
        if snapshots := asyncio.run(compare_archive(settings.log, settings.backup, PARTITIONS)).snapshots:
            break
        kill_in_turn(settings.log, settings.backup, PARTITIONS, chance, 1, within=60.0)
    assert snapshots


async def prepare_now(settings: Settings) -> None:
    await prepare_log(settings.log)


@pytest.mark.timeout(1800)
def test_what_was_lost_is_restored_by_a_command_that_is_killed(
    machine: ServedMachine, services: dict[str, Service], tmp_path: Path
) -> None:
    with receiver() as events, hub_server({"rows.csv": b"question\nwhy?\n"}) as hub:
        hub.token = TOKEN
        allow(machine, hub.origin)
        assert machine.config("init").returncode == 0
        machine.up("orchestrator")  # nothing is fetched yet
        with machine.client(tries=30) as client:
            settings = load(machine.settings, machine.state.path)
            made = ask_for(client, settings, events, tmp_path / "rows")
        machine.down()
        before = list(events.sent)
        lose_and_restore(machine, services["postgresql"])
        machine.up()
        with machine.client(tries=30) as client:
            check_restored(client)
            check_asked_for(client, made, hub)
            check_events(client, load(machine.settings, machine.state.path), made, events, before)


def lose_and_restore(machine: ServedMachine, postgresql: Service) -> None:
    """Lose log, view and accounts, and restore them: from the backup, and from a copy of the accounts database."""
    settings = load(machine.settings, machine.state.path)
    asyncio.run(use(settings))
    before = asyncio.run(contents(settings))
    assert "passed: " in steelyard(machine, "backup", "drill")
    name = secrets.token_hex(4)
    copy_database(settings.accounts, postgresql, name)
    place(machine, name, "log", "view", "accounts")
    assert machine.config("init").returncode == 0
    print(f"\nSTEELYARD_KILL_SEED={SEED}")
    kill_restores(machine, random.Random(SEED))
    print(steelyard(machine, "restore", "--yes"))
    settings = load(machine.settings, machine.state.path)
    assert asyncio.run(contents(settings)) == before
    assert f"{DATASETS - 1 + ENTITIES} entities restored" in steelyard(machine, "restore", "--yes"), (
        "a repeat does no harm"
    )
    assert asyncio.run(contents(settings)) == before


def check_restored(client: Client) -> None:
    assert client.datasets.get("d8").labels == {"a": "1"}
    # Deleted, and forgotten before everything was lost.
    for id in ("d6", "d5"):
        # As of one whose work was cut short.
        assert client.backup.restore(id).status == "Error"
        assert client.datasets.get(id).reason == "Restored"
    assert client.datasets.get("d5").labels == {"kept": "1"}


@pytest.mark.timeout(1800)
def test_what_is_deleted_leaves_every_place_in_its_time(machine: ServedMachine) -> None:
    assert machine.config("init").returncode == 0
    settings = load(machine.settings, machine.state.path)
    mirrored = settings.backup.replace("/backup/", "/mirror/")
    check_days(asyncio.run(live_through(settings, mirrored, busy=True)))


def kill_restores(machine: ServedMachine, chance: random.Random) -> None:
    """Kill the restore as it begins, and then at random moments until it was faster.

    One that is killed while it writes to the view leaves a transaction open: later ones wait until the server ends it.
    """
    for earliest, latest in ((0.1, 0.5), *[(1.5, 8.0)] * (KILLS - 1)):
        process = subprocess.Popen(command(machine, "restore", "--yes"), stdout=subprocess.DEVNULL)
        try:
            assert process.wait(chance.uniform(earliest, latest)) == 0
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            there = asyncio.run(written(load(machine.settings, machine.state.path)))
            print(f"killed a restore that had written {there[0]} states, and {there[1]} entities of the view")


async def written(settings: Settings) -> tuple[int, int]:
    states, view = await contents(settings)
    return len(states), len(view)


async def use(settings: Settings) -> None:
    """Fill an installation, and back it up: entities that live, a deleted one and a forgotten one."""
    async with open_engines(settings) as opened:
        log = opened.log
        await enter(log, settings.log, outlets(opened, settings), "")
        entities = [make_dataset(f"d{number}") for number in range(DATASETS)]
        await aggregate(log, *(message(create(entity)) for entity in entities))
        await aggregate(log, message(labels(entities[8], a="1")), message(labels(entities[5], kept="1")))
        await fill_view(log, opened.view)
        await back_up(log, opened.backup)
        lately = datetime.now(UTC) - START  # a week later their files would be gone
        await aggregate(log, *(message(status(entity, "Deleted"), after=lately) for entity in entities[5:7]))
        await aggregate(log, message(forget(entities[5]), "reaper", after=lately))
        await fill_view(log, opened.view)
        await back_up(log, opened.backup)


async def contents(settings: Settings) -> tuple[Mapping[str, object], Mapping[str, bytes]]:
    """Return the states of a log, without their places in it, and what its view shows."""
    async with open_engines(settings) as opened:
        states = {
            record.key: (record.value, FORGOTTEN in record.headers, record.headers["id"])
            async for records in topic_pieces(opened.log, STATE)
            for record in records
        }
        view = {stored.id: stored.json for kind in FILTERS for stored in await opened.view.query(Query(kind))}
        return states, view
