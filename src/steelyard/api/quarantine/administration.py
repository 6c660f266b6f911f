"""Entities in quarantine: shown as such wherever they are read, counted, and ended by an administrator.

What is in quarantine lies in the log, whatever process its consumer runs in. `QuarantineWatch` follows it, so that
every answer about an entity says that it is held, and why; the routes read the log itself.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import orjson
from prometheus_client import CollectorRegistry, Gauge
from starlette.responses import Response

from steelyard.api.http.context import Call, answer, json_response
from steelyard.api.http.errors import NotFound
from steelyard.broker.log import QUARANTINE, Log, LogError
from steelyard.broker.quarantine.administration import (
    Quarantined,
    end_quarantine,
    quarantined,
    quarantined_of,
)
from steelyard.broker.quarantine.dead_letters import COMMANDS, waiting_of
from steelyard.broker.scan import topic_pieces
from steelyard.schema.answers import QuarantinedEntity, QuarantinedMessage, Status

REASON = "Quarantined"
PAUSE = 0.25
"""Seconds between two looks at the log: it changes with every command."""
WAIT = 5.0
_log = logging.getLogger(__name__)


class QuarantineWatch:
    """Entities in quarantine, as the log showed them a moment ago."""

    def __init__(self, log: Log, registry: CollectorRegistry) -> None:
        self._log = log
        self._held: dict[str, dict[str, Quarantined]] = {}
        self._keys: dict[str, tuple[str, str]] = {}
        self._at: dict[int, int] = {}
        self._gauge = Gauge(
            "steelyard_quarantined_entities",
            "Entities that a consumer has put in quarantine; alert when it is above 0.",
            ["consumer"],
            registry=registry,
        )
        self._gauge.labels(COMMANDS).set(0)

    async def run(self) -> None:
        """Follow the log until cancelled."""
        while True:
            version = self._log.version()
            try:
                await self.read()
                await self._log.changed(version, WAIT)
            except LogError as error:
                _log.warning("cannot read what is in quarantine: %s", error)
            await asyncio.sleep(PAUSE)

    async def read(self) -> None:
        """Read what has come since the last call."""
        moved = False
        async for records in topic_pieces(self._log, QUARANTINE, self._at):
            for record in records:
                self._see(record.key, quarantined_of(record))
                self._at[record.partition] = record.offset + 1
                moved = True
        if moved:
            self._count()

    def _see(self, mark: str, said: Quarantined | None) -> None:
        if mark in self._keys:
            key, consumer = self._keys.pop(mark)
            held = self._held[key]
            held.pop(consumer, None)
            if not held:
                del self._held[key]
        if said is not None:
            self._keys[mark] = said.key, said.consumer
            self._held.setdefault(said.key, {})[said.consumer] = said

    def _count(self) -> None:
        self._gauge.clear()
        self._gauge.labels(COMMANDS).set(0)
        for consumer, number in Counter(consumer for _, consumer in self._keys.values()).items():
            self._gauge.labels(consumer).set(number)

    def shown(self, id: str, json: bytes) -> bytes:
        """An entity's JSON, with the quarantine as its reason where it is in one; its status is the last known one."""
        held = self._held.get(id)
        if not held:
            return json
        entity = orjson.loads(json)
        return orjson.dumps({**entity, "reason": REASON, "message": _in_words(held)})


def _in_words(held: Mapping[str, Quarantined]) -> str:
    """Message for the owner: what has happened, and who can do something about it."""
    said = [
        f"a command could not be applied ({each.reason}); {each.waiting - 1} later ones wait"
        if consumer == COMMANDS
        else f"the {consumer} could not take its newest state ({each.reason})"
        for consumer, each in sorted(held.items())
    ]
    return f"{'; '.join(said)}: an administrator can release it (steelyard quarantine show)"


async def query(call: Call) -> Response:
    """List all quarantines, the longest first."""
    found = [_described(entity) for entity in await quarantined(call.api.platform.log)]
    return json_response(b"[%s]" % b",".join(entity.dump_json().encode() for entity in found))


async def get(call: Call) -> Response:
    """Quarantines of one entity, by consumer, with the messages that wait."""
    found = await _of(call)
    waiting = await waiting_of(call.api.platform.log, call.id)
    messages = [
        QuarantinedMessage(
            id=record.headers.get("id", ""),
            command=_command(record.value),
            source=record.headers.get("source", ""),
            time=record.headers.get("time", ""),
            partition=record.partition,
            offset=record.offset,
        )
        for record in waiting
    ]
    said = [_described(entity, messages if entity.consumer == COMMANDS else []) for entity in found]
    return json_response(b"[%s]" % b",".join(entity.dump_json().encode() for entity in said))


async def release(call: Call) -> Response:
    """Try again what was put aside, and go on with what waits behind it."""
    return await _end(call, dropping=False)


async def drop(call: Call) -> Response:
    """Go on with what waits, without what was put aside."""
    return await _end(call, dropping=True)


async def _end(call: Call, *, dropping: bool) -> Response:
    found = await _of(call)
    await end_quarantine(call.api.platform.log, found, dropping=dropping)
    consumers = ", ".join(entity.consumer for entity in found)
    word = "Dropped" if dropping else "Released"
    _log.warning("%s of %s: %s by %s", call.id, consumers, word, call.access.actor)
    return answer(Status(status=word, message=f"{call.id}: {consumers} will process it again"))


async def _of(call: Call) -> list[Quarantined]:
    """Quarantines of the entity that the call names. Raises NotFound."""
    consumer = call.query.get("consumer")
    found = [
        entity
        for entity in await quarantined(call.api.platform.log)
        if entity.key == call.id and consumer in {None, entity.consumer}
    ]
    if not found:
        of = f" of {consumer}" if consumer else ""
        raise NotFound(f"id: {call.id} is not in quarantine{of}")
    return found


def _described(each: Quarantined, messages: list[QuarantinedMessage] | None = None) -> QuarantinedEntity:
    return QuarantinedEntity(
        id=each.key,
        consumer=each.consumer,
        reason=each.reason,
        since=datetime.fromisoformat(each.since),
        waiting=each.waiting,
        messages=messages or [],
    )


def _command(value: bytes | None) -> str:
    """Command that the message asks for, where it can be read."""
    try:
        return str(orjson.loads(value or b"")["command"])
    except (ValueError, LookupError, TypeError):
        return "unreadable"
