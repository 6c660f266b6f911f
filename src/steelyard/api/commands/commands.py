"""Accepts commands: durably, each once, and so that clients read what they wrote.

A create is answered when its command is in the log. Its row in the outbox lets a repeated request find it, lets reads
show the entity at once, and lets the next process send it if this one did not. An edit is answered when the aggregator
has applied it and the view shows it.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from steelyard.accounts.outbox import Outbox, OutboxRow
from steelyard.api.commands.acceptance import check_entity
from steelyard.api.commands.outcomes import Outcome, OutcomeReader
from steelyard.api.commands.relay import OutboxRelay
from steelyard.api.http.errors import Conflict, NotFound, Unavailable, key_taken
from steelyard.api.http.reply import Reply
from steelyard.api.settings import ApiSettings
from steelyard.broker.log import EVENTS, QUARANTINE, Log, LogError, Message
from steelyard.broker.partition import find_partition
from steelyard.views.view import Position, View
from steelyard_schema.commands import (
    CreateChallengeTask,
    CreateEntity,
    EditChallengeContent,
    EditChallengeRules,
    EditChallengeTaskRules,
    EditEntityDocumentation,
    EditEntityLabels,
    EditFamilyMembers,
    EditTeam,
    PutQuota,
    RestoreEntity,
    UpdateEntityStatus,
    command_time,
)
from steelyard_schema.entities import AnyEntity

_POLL_SECONDS = 0.25
Edit = (
    EditEntityDocumentation
    | EditEntityLabels
    | UpdateEntityStatus
    | RestoreEntity
    | EditFamilyMembers
    | CreateChallengeTask
    | EditChallengeContent
    | EditChallengeRules
    | EditChallengeTaskRules
    | EditTeam
    | PutQuota
)
"""A command about an entity that is there, whose outcome its sender waits for."""


@dataclass(frozen=True)
class CommandOrigin:
    """The caller and the request that a command comes from; the command's headers name them."""

    actor: str
    token: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of the request that go along: `request`, `traceparent`, `if-match`, if they are given."""
    idempotency_key: str | None = None
    digest: str = ""
    """SHA-256 of method, path and body."""


class Commands:
    """Accepts the creates and edits of one API process."""

    def __init__(
        self,
        log: Log,
        view: View,
        outbox: Outbox,
        outcomes: OutcomeReader,
        relay: OutboxRelay,
        settings: ApiSettings,
        new_id: Callable[[], str],
    ) -> None:
        self._log = log
        self._view = view
        self._outbox = outbox
        self._outcomes = outcomes
        self._relay = relay
        self._seconds = settings.outcome_seconds
        self._entity_bytes = settings.entity_bytes
        self._new_id = new_id

    async def create(
        self, entities: Sequence[AnyEntity], origin: CommandOrigin, now: datetime, reply: Reply
    ) -> tuple[OutboxRow, bool]:
        """Accept all of the entities or none; return the row of the first, and whether it is new.

        A row that is not new is that of an earlier request, which this one repeats. Raises TooLarge and Invalid for an
        entity that the aggregator would not accept, Unavailable if the commands could not be sent (a repeat finds the
        row) or an equal request hangs at another server, and ClientDisconnect, with nothing accepted, if the client is
        gone.
        """
        first, *others = (self._row(entity, origin, now) for entity in entities)
        # A repeat is recognised by the first row alone: the others follow from the same request.
        rows = [first, *(replace(row, request="", idempotency_key=None) for row in others)]
        if first.idempotency_key is not None:  # it may be the key of another request, whose row has expired
            earlier = await self._outbox.find_expired(first.account, first.idempotency_key)
            if earlier not in {None, first.request}:
                raise key_taken(first.idempotency_key)
        else:
            await self._relay.resolve_doubt(first)
        reply.check_connected()
        reply.acknowledge(rows[0].command)  # before the row is written: the connection may break in between
        kept = await self._relay.add(rows)
        if kept.command != rows[0].command:
            await self._answer_again(kept, first.request, reply)
            return kept, False
        if origin.idempotency_key is not None and await self._exists(rows):
            return kept, False
        try:
            await self._relay.send(rows)
        except LogError as error:
            raise Unavailable(f"the request was not accepted: {error}") from error
        return kept, True

    async def find_accepted(self, account: str, origin: CommandOrigin, reply: Reply) -> OutboxRow | None:
        """Return the row of an earlier request with this idempotency key, if it is known.

        It is asked before a request is checked: what the first one used may be gone by now, and a repeat gets the first
        one's entity all the same. Raises Invalid for the key of another request.
        """
        if origin.idempotency_key is None:
            return None
        row = await self._outbox.find_accepted(account, origin.idempotency_key)
        if row is not None:
            await self._answer_again(row, origin.digest, reply)
        return row

    async def find_repeat(
        self, account: str, origin: CommandOrigin, now: datetime, reply: Reply
    ) -> OutboxRow | None:
        """Return the row of an earlier equal request without a key whose answer was lost; this answer stands for it.

        It is asked once a request has failed its checks: what the earlier one used may be gone by now.
        """
        if origin.idempotency_key is not None:
            return None
        request = _request_identity(origin)
        asked = OutboxRow("", account, "", "", now, "", b"", {}, request)
        row = await self._relay.find_repeat(asked)
        if row is not None:
            await self._answer_again(row, request, reply)
        return row

    async def _answer_again(self, kept: OutboxRow, request: str, reply: Reply) -> None:
        """Let the answer stand for the row of an earlier request, which this one repeats. Raises Conflict."""
        if kept.request != request:
            raise key_taken(kept.idempotency_key or "")
        reply.acknowledge(kept.command)
        # The earlier request could not send it, or died before. Another server sends its rows itself.
        if kept.position is None:
            await self._relay.resend()

    async def _exists(self, rows: Sequence[OutboxRow]) -> bool:
        """Return whether an earlier request with the key, whose row has expired, created the entity.

        The id of an entity is derived from the key, so that the view can show whether it was created.
        """
        try:
            stored = await self._view.find(rows[0].entity)
        except BaseException:
            # The row is accepted, and a repeat gets that answer: it must not wait for this request, which ends here.
            self._relay.send_later(rows)
            raise
        if stored is None:
            return False
        await self._relay.drop(rows)
        # The same key was given for an entity of another kind.
        if stored.kind != rows[0].kind:
            raise key_taken(rows[0].idempotency_key or "")
        return True

    async def edit(self, command: Edit, origin: CommandOrigin, now: datetime) -> bytes:
        """Send a command, and return the entity's JSON once the view shows the change.

        Raises NotFound and Conflict for a rejected command, and Unavailable for one that was not sent or not applied
        in time.
        """
        id = self._new_id()
        if origin.idempotency_key is not None:
            # The same for every repeat of the request, so that the aggregator applies the command once.
            parts = (origin.token, origin.idempotency_key, origin.digest, command.data.id)
            id = derive_id("command", *parts)
        message = self._message(command, id, origin, now)
        # Expected before it is sent: the aggregator may be faster than this task.
        expected = await self._outcomes.expect(id, urgent=True)
        try:
            async with asyncio.timeout(self._seconds):
                await self._relay.send_before(command.data.id)
                await self._log.publish([message])
                outcome = await expected
                if outcome.outcome == "rejected":
                    detail = outcome.message or outcome.reason or "the command was rejected"
                    raise NotFound(detail) if outcome.reason == "NotFound" else Conflict(detail)
                return await self._wait_for_outcome(command.data.kind, command.data.id, outcome)
        except TimeoutError as error:
            mark = await self._log.latest(QUARANTINE, command.data.id)
            in_quarantine = mark is not None and mark.value is not None
            advice = (
                "the entity is in quarantine: an administrator can release it"
                if in_quarantine
                else "a repeat does no harm"
            )
            raise Unavailable(
                f"the command was accepted and is not applied after {self._seconds:g} s; {advice}"
            ) from error
        except LogError as error:
            raise Unavailable(f"the command was not accepted: {error}") from error
        finally:
            self._outcomes.forget(id)

    async def _wait_for_outcome(self, kind: str, id: str, outcome: Outcome) -> bytes:
        """Wait until the view has reached the outcome, and return the entity's JSON."""
        epoch = self._log.epoch if outcome.epoch is None else outcome.epoch
        position = Position(epoch, outcome.offset or 0)
        while True:
            # Taken before the check: a change in between wakes at once.
            version = self._view.version()
            stored = await self._view.get(kind, id)
            if stored is not None and stored.position >= position:
                return stored.json
            await self._view.wait_for_change(version, _POLL_SECONDS)

    def _row(self, entity: AnyEntity, origin: CommandOrigin, now: datetime) -> OutboxRow:
        # A new id for each attempt: where attempts of one request race, the row that is kept decides.
        command = self._new_id()
        message = self._message(CreateEntity(data=entity), command, origin, now)
        assert message.value is not None
        # The aggregator's own check, before the answer: what is accepted must be stored (rules 6 and 10).
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
            # With a key, a repeat is the same request although the token may be another one by then.
            request=origin.digest if origin.idempotency_key is not None else _request_identity(origin),
            idempotency_key=origin.idempotency_key,
            ends=self._relay.end(find_partition(entity.id, self._log.partitions)),
        )

    def _message(
        self, command: CreateEntity | Edit, id: str, origin: CommandOrigin, now: datetime
    ) -> Message:
        headers = {"id": id, "source": "api", "time": command_time(now), "actor": origin.actor}
        headers |= {"token": origin.token, **origin.headers}
        return Message(EVENTS, command.data.id, command.dump_json(), headers)


def _request_identity(origin: CommandOrigin) -> str:
    """Return what equal requests without an idempotency key have in common: their token, too."""
    return f"{origin.token}:{origin.digest}"


def derive_id(*parts: str) -> str:
    """Return the SHA-256 digest of the parts, cut to a version-4 UUID."""
    # Lengths keep ("ab", "c") and ("a", "bc") apart.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4).hex
