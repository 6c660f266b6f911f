"""The path of a command: accepted once it is durable, never twice, and seen by whoever gave it.

A create is answered when its command is in the log. By its row in the outbox a repeated request finds it, reads show it
at once, and a process that starts again sends it if the one before did not. An edit waits until it was judged and the
view shows it.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from steelyard.accounts.database import Outbox, OutboxRow
from steelyard.api.commands.acceptance import check_entity
from steelyard.api.commands.outcomes import Outcome, Outcomes
from steelyard.api.commands.relay import Settling
from steelyard.api.http.errors import ApiError, Conflict, NotFound, Unavailable, key_taken
from steelyard.api.http.reply import Reply
from steelyard.api.settings import ApiSettings
from steelyard.broker.log import EVENTS, QUARANTINE, Log, LogError, Message
from steelyard.broker.partition import partition_of
from steelyard.schema.commands import (
    CreateEntity,
    EditEntityDocumentation,
    EditEntityLabels,
    UpdateEntityStatus,
    command_time,
)
from steelyard.schema.entities import AnyEntity
from steelyard.views.view import Position, View

_PAUSE = 0.25
Edit = EditEntityDocumentation | EditEntityLabels | UpdateEntityStatus


@dataclass(frozen=True)
class Asker:
    """On whose behalf, and in which request, a command is given: its headers."""

    actor: str
    token: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """`request`, `traceparent`, `if-match` where known."""
    idempotency_key: str | None = None
    digest: str = ""
    """Of route and body."""


class Commands:
    """Creates and edits of one API process."""

    def __init__(
        self,
        log: Log,
        view: View,
        outbox: Outbox,
        outcomes: Outcomes,
        settling: Settling,
        settings: ApiSettings,
        new_id: Callable[[], str],
    ) -> None:
        self._log = log
        self._view = view
        self._outbox = outbox
        self._outcomes = outcomes
        self._settling = settling
        self._seconds = settings.outcome_seconds
        self._entity_bytes = settings.entity_bytes
        self._new_id = new_id

    async def create(
        self, entities: Sequence[AnyEntity], asker: Asker, now: datetime, reply: Reply
    ) -> tuple[OutboxRow, bool]:
        """All of the entities or none: the first one's row, which the reply acknowledges, and whether it is new.

        Otherwise it is that of an earlier request, which this one repeats. Raises TooLarge, Invalid for what the
        aggregator would not take, and Unavailable when they could not be sent: a repeat finds the row. Raises
        ClientDisconnect, and accepts nothing, where nobody waits for the reply.
        """
        first, *others = (self._row(entity, asker, now) for entity in entities)
        # A repeat has to find the first, whatever else its request brings about.
        rows = [first, *(replace(row, request="", idempotency_key=None) for row in others)]
        await self._check_key(rows[0])
        reply.check_connected()
        reply.acknowledge(rows[0].command)  # before it is kept: the connection may break meanwhile
        kept = await self._settling.add(rows)
        if kept.command != rows[0].command:
            reply.acknowledge(kept.command)
            await self._check_repeat(kept, rows[0])
            return kept, False
        if asker.idempotency_key is not None and await self._made_before(rows):
            return kept, False
        try:
            await self._settling.send(rows)
        except LogError as error:
            raise Unavailable(f"the request was not accepted: {error}") from error
        return kept, True

    async def _check_key(self, row: OutboxRow) -> None:
        """Raises Invalid where the key was given with another request, so long ago that its row is gone."""
        if row.idempotency_key is not None:
            earlier = await self._outbox.expired_request(row.account, row.idempotency_key)
            if earlier not in {None, row.request}:
                raise key_taken(row.idempotency_key)

    async def _check_repeat(self, kept: OutboxRow, row: OutboxRow) -> None:
        if kept.request != row.request:
            raise key_taken(row.idempotency_key or "")
        if kept.position is None:
            await self._settling.resend()

    async def _made_before(self, rows: Sequence[OutboxRow]) -> bool:
        """Whether the key was used so long ago that its row is gone; the entity has its id from the key."""
        found = await self._view.find(rows[0].entity)
        if found is None:
            return False
        await self._settling.drop(rows)
        if found.kind != rows[0].kind:
            raise key_taken(rows[0].idempotency_key or "")
        return True

    async def edit(self, command: Edit, asker: Asker, now: datetime) -> bytes:
        """The entity's JSON once the command was judged and the view shows it. Raises Conflict, Unavailable."""
        id = self._edit_id(asker, command.data.id)
        message = self._message(command, id, asker, now)
        expected = await self._outcomes.expect(id, hurry=True)
        try:
            async with asyncio.timeout(self._seconds):
                await self._log.publish([message])
                outcome = await expected
                if outcome.outcome == "rejected":
                    raise _refusal(outcome)
                return await self._shown(command.data.kind, command.data.id, outcome)
        except TimeoutError as error:
            mark = await self._log.latest(QUARANTINE, command.data.id)
            held = mark is not None and mark.value is not None
            why = (
                "the entity is in quarantine: an administrator can release it"
                if held
                else "a repeat does no harm"
            )
            raise Unavailable(
                f"the command was accepted and is not applied after {self._seconds:g} s; {why}"
            ) from error
        except LogError as error:
            raise Unavailable(f"the command was not accepted: {error}") from error
        finally:
            self._outcomes.forget(id)

    async def _shown(self, kind: str, id: str, outcome: Outcome) -> bytes:
        """Read your writes: the entity as the view has it from the outcome on."""
        epoch = self._log.epoch if outcome.epoch is None else outcome.epoch
        wanted = Position(epoch, outcome.offset or 0)
        while True:
            version = self._view.version()
            stored = await self._view.get(kind, id)
            if stored is not None and stored.position >= wanted:
                return stored.json
            await self._view.changed(version, _PAUSE)

    def _row(self, entity: AnyEntity, asker: Asker, now: datetime) -> OutboxRow:
        command = self._new_id()  # of one attempt: the row that is kept decides which attempt counts
        message = self._message(CreateEntity(data=entity), command, asker, now)
        assert message.value is not None
        check_entity(entity.dump(), message.value, command, self._entity_bytes)
        return OutboxRow(
            command=command,
            account=entity.account,
            kind=entity.kind,
            entity=entity.id,
            created=now,
            topic_key=entity.id,
            value=message.value,
            headers=message.headers,
            request=_request(asker),
            idempotency_key=asker.idempotency_key,
            ends=self._settling.end(partition_of(entity.id, self._log.partitions)),
        )

    def _edit_id(self, asker: Asker, entity: str) -> str:
        """Random; of a request with a key always the same one, so that the aggregator knows a repeat."""
        if asker.idempotency_key is None:
            return self._new_id()
        return derived_id("command", asker.token, asker.idempotency_key, asker.digest, entity)

    def _message(self, command: CreateEntity | Edit, id: str, asker: Asker, now: datetime) -> Message:
        headers = {"id": id, "source": "api", "time": command_time(now), "actor": asker.actor}
        headers |= {"token": asker.token, **asker.headers}
        return Message(EVENTS, command.data.id, command.dump_json(), headers)


def _request(asker: Asker) -> str:
    """What makes a repeated request the same one; with a key, whatever the token is by now."""
    return asker.digest if asker.idempotency_key is not None else f"{asker.token}:{asker.digest}"


def _refusal(outcome: Outcome) -> ApiError:
    detail = outcome.message or outcome.reason or "the command was rejected"
    if outcome.reason == "NotFound":
        return NotFound(detail)
    return Conflict(detail)


def derived_id(*parts: str) -> str:
    """SHA-256 of the parts, cut to a version-4 UUID."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4).hex
