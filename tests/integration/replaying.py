"""One history of commands, replayed into a log and a view, and what both hold then in a form that can be compared.

`python -m tests.integration.replaying` tells the README's story on this machine and writes its commands to
`recorded/story.jsonl.gz`; the tests replay them, so that they need no platform.
"""

import asyncio
import gzip
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

import orjson

from steelyard.broker.log import AGGREGATOR, DEAD, EVENTS, OUTCOMES, STATE, WAITING, Log, Message, Record
from steelyard.broker.open import open_log, prepare_log
from steelyard.broker.scan import topic_pieces
from steelyard.broker.simulation.replay import work_off
from steelyard.cli.demo.digits import make
from steelyard.cli.demo.story import Story
from steelyard.cli.display import NoDisplay
from steelyard.local.restoring import fill_view
from steelyard.services.aggregator.aggregator import Aggregator
from steelyard.services.simulation.commands import (
    create,
    documentation,
    forget,
    headers,
    labels,
    restore,
    status,
)
from steelyard.services.simulation.entities import (
    make_audit,
    make_dataset,
    make_evaluation,
    make_model,
    make_report,
    make_service,
    make_session,
)
from steelyard.views.fields import FILTERS
from steelyard.views.open import open_view
from steelyard.views.view import Query, View
from steelyard_schema.base import DyffEntity
from steelyard_schema.commands import Command
from steelyard_schema.status import statuses
from tests.integration.conftest import machine_at

STORY = Path(__file__).parent / "recorded" / "story.jsonl.gz"
COMMANDS = 3000
ENTITIES = 150
BATCHES = (500, 7, 1, 60)
MAKERS: Sequence[Callable[[str], DyffEntity]] = (
    make_dataset,
    make_evaluation,
    make_model,
    make_service,
    make_session,
    make_report,
    make_audit,
)
LIFE = (
    "create",
    "labels",
    "documentation",
    "status",
    "status",
    "delete",
    "restore",
    "delete",
    "forget",
    "forget",
)
SOURCES = ("api", "orchestrator", "informer", "reaper")
_VALUES = ("1", "ä\u2028 \U0001f600", 'a.b/"c"\\', None)


def recorded_story() -> list[Message]:
    """The commands of the README's story, in the order in which they were written."""
    with gzip.open(STORY, "rt") as file:
        lines = [orjson.loads(line) for line in file]
    return [Message(EVENTS, line["key"], line["value"].encode(), line["headers"]) for line in lines]


def random_history(random: Random, number: int = COMMANDS) -> list[Message]:
    """Commands about entities of every kind: whole lives, misplaced ones, repeated ones, malformed ones."""
    entities = [MAKERS[at % len(MAKERS)](f"{at:032x}") for at in range(ENTITIES)]
    lives = {entity.id: iter(LIFE) for entity in entities}
    sent: list[Message] = []
    for day in range(number):
        entity, chance = random.choice(entities), random.random()
        if chance < 0.05 and sent:
            sent.append(random.choice(sent))
        elif chance < 0.052:
            sent.append(Message(EVENTS, entity.id, b'{"command": "Explode"}', headers("informer")))
        else:
            doing = next(lives[entity.id], "labels") if chance < 0.7 else random.choice(LIFE)
            source = {"status": random.choice(SOURCES), "forget": "reaper"}.get(doing, "api")
            given = headers(source, timedelta(minutes=day))
            sent.append(Message(EVENTS, entity.id, _command(doing, entity, random).dump_json(), given))
    return sent


def _command(doing: str, entity: DyffEntity, random: Random) -> Command:
    match doing:
        case "create":
            return create(entity)
        case "labels":
            return labels(entity, **{random.choice("abc"): random.choice(("1", "two", None))})
        case "documentation":
            return documentation(entity, title=random.choice(_VALUES))
        case "restore":
            return restore(entity)
        case "forget":
            return forget(entity)
        case "delete":
            return status(entity, "Deleted")
        case _:
            return status(entity, random.choice(statuses(type(entity).__name__)), "Reason", "é")


async def replay(history: Sequence[Message], log: Log) -> None:
    """Write a history to an empty log, and let the aggregator work on it, in batches of several sizes.

    It does so in two parts, as after a pause: copies and positions go on where they were.
    """
    half = len(history) // 2
    for part in (history[:half], history[half:]):
        for start in range(0, len(part), 500):
            await log.publish(part[start : start + 500])
        await work_off(log, AGGREGATOR, EVENTS, Aggregator, BATCHES)


@dataclass(frozen=True)
class Contents:
    """Contents of a log or a view, one line for each record or entity, sorted."""

    lines: Sequence[bytes]

    def __sub__(self, other: "Contents") -> list[bytes]:
        """Return the first lines that the other lacks: the whole would fill a screen."""
        return sorted(set(self.lines) - set(other.lines))[:3]


async def held_by_log(log: Log) -> dict[str, Contents]:
    """Return the newest states, the outcomes and the dead letters of a log.

    An offset is replaced by the number of the command in its partition: markers of transactions take offsets, too.
    """
    numbers = await _numbers(log)
    newest: dict[str, Record] = {}
    async for records in topic_pieces(log, STATE):
        newest |= {record.key: record for record in records}
    states = [_line(record, numbers) for record in newest.values() if record.value is not None]
    # A tombstone stays for as long as its log wants.
    rest = {
        topic: Contents(
            sorted(
                [_line(record, numbers) async for records in topic_pieces(log, topic) for record in records]
            )
        )
        for topic in (OUTCOMES, DEAD, WAITING)
    }
    return {STATE: Contents(sorted(states)), **rest}


async def held_by_view(view: View, log: Log) -> Contents:
    """Return the entities of a view, in the order of its answers."""
    numbers = await _numbers(log)
    lines = []
    for kind in FILTERS:
        for stored in await view.query(Query(kind, order_by="creationTime")):
            (number,) = {
                number
                for (partition, offset), number in numbers.items()
                if offset == stored.position.offset and partition == numbers.partition_of(stored.id)
            }
            head = [stored.kind, stored.id, stored.position.epoch, number]
            lines.append(orjson.dumps(head) + stored.json)
    return Contents(lines)


class _Numbers(dict[tuple[int, int], int]):
    """Number of each command in its partition, by partition and offset."""

    def __init__(self) -> None:
        self._partitions: dict[str, int] = {}

    def add(self, record: Record, number: int) -> None:
        self[record.partition, record.offset] = number
        self._partitions[record.key] = record.partition

    def partition_of(self, key: str) -> int:
        return self._partitions[key]


async def _numbers(log: Log) -> _Numbers:
    numbers, counts = _Numbers(), dict.fromkeys(range(log.partitions), 0)
    async for records in topic_pieces(log, EVENTS):
        for record in records:
            numbers.add(record, counts[record.partition])
            counts[record.partition] += 1
    return numbers


def _line(record: Record, numbers: _Numbers) -> bytes:
    given = dict(record.headers)
    if "offset" in given:
        given["offset"] = str(numbers[int(given["partition"]), int(given["offset"])])
    if "origin" in given:
        topic, partition, offset = given["origin"].split("/")
        given["origin"] = f"{topic}/{partition}/{numbers[int(partition), int(offset)]}"
    value = record.value or b""
    if record.topic == OUTCOMES:
        content = orjson.loads(value)
        content["offset"] = numbers[content["partition"], content["offset"]]
        value = orjson.dumps(content)
    return orjson.dumps([record.partition, record.key, given], option=orjson.OPT_SORT_KEYS) + value


async def check_pairs(
    history: Sequence[Message], logs: Mapping[str, str], views: Mapping[str, Callable[[], str]]
) -> int:
    """Replay a history into each log, and from each into new views of each kind; all must hold the same.

    Returns the number of entities. `logs` are addresses of empty logs, `views` give those of empty views.
    """
    first_log: dict[str, Contents] = {}
    first_view: Contents | None = None
    for log_name, address in logs.items():
        await prepare_log(address)
        async with AsyncExitStack() as stack:
            log = await open_log(address)
            stack.push_async_callback(log.close)
            await replay(history, log)
            states = await held_by_log(log)
            first_log = first_log or states
            for topic, held in states.items():
                assert held == first_log[topic], (
                    log_name,
                    topic,
                    held - first_log[topic],
                    first_log[topic] - held,
                )
            for view_name, new in views.items():
                view = await open_view(new())
                stack.push_async_callback(view.close)
                held = await _replayed(log, view)
                first_view = first_view or held
                assert held == first_view, (log_name, view_name, held - first_view, first_view - held)
    assert first_view is not None
    shown = {line.split(b" ", 1)[0] for line in first_log[STATE].lines if b'"forgotten"' not in line}
    assert len(first_view.lines) == len(shown), "the view shows what lives, and nothing else"
    return len(first_view.lines)


async def _replayed(log: Log, view: View) -> Contents:
    """Fill a view from a log, twice over: the second reading must change nothing."""
    await fill_view(log, view)
    held = await held_by_view(view, log)
    await view.restart(log.epoch)
    await fill_view(log, view)
    again = await held_by_view(view, log)
    assert held == again, (held - again, again - held)
    return held


def record_story() -> None:
    """Tell the story on this machine, and keep its commands."""
    with tempfile.TemporaryDirectory(prefix="steelyard-story-") as name:
        folder = Path(name)
        with machine_at(folder / "state") as machine:
            machine.up()
            with machine.client() as client:
                Story(client, NoDisplay(), timeout=600).run(make(folder / "digits"))
            machine.down()
        asyncio.run(_write(folder / "state" / "log.db"))


async def _write(path: Path) -> None:
    log = await open_log(f"sqlite:{path}")
    records = [record async for records in topic_pieces(log, EVENTS) for record in records]
    await log.close()
    records.sort(key=lambda record: record.written)
    STORY.parent.mkdir(exist_ok=True)
    with STORY.open("wb") as target, gzip.GzipFile(fileobj=target, mode="wb", mtime=0) as file:
        for record in records:
            text = (record.value or b"").decode()
            file.write(orjson.dumps({"key": record.key, "value": text, "headers": record.headers}) + b"\n")
    print(f"{len(records)} commands in {STORY}")


if __name__ == "__main__":
    record_story()
