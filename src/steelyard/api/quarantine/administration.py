"""Handlers for administrators: list quarantines, and release or drop the messages that failed."""

import logging
from datetime import datetime

import orjson
from starlette.responses import Response

from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import NotFound
from steelyard.api.http.responses import list_response, model_response
from steelyard.broker.quarantine.administration import QuarantineEntry, end_quarantine, list_entries
from steelyard.broker.quarantine.dead_letters import COMMANDS, list_waiting
from steelyard_schema.answers import QuarantinedEntity, QuarantinedMessage, Status

_log = logging.getLogger(__name__)


async def query(context: RequestContext) -> Response:
    """List all quarantines, the longest first."""
    return list_response([_present(entity) for entity in await list_entries(context.api.platform.log)])


async def get(context: RequestContext) -> Response:
    """List the quarantines of one entity, with the messages that wait."""
    quarantines = await _load(context)
    messages = [
        QuarantinedMessage(
            id=record.headers.get("id", ""),
            command=_command(record.value),
            source=record.headers.get("source", ""),
            time=record.headers.get("time", ""),
            partition=record.partition,
            offset=record.offset,
        )
        for record in await list_waiting(context.api.platform.log, context.id)
    ]
    return list_response(
        [
            _present(quarantine, messages if quarantine.consumer == COMMANDS else [])
            for quarantine in quarantines
        ]
    )


async def release(context: RequestContext) -> Response:
    """Try the failed message again, then those that wait behind it."""
    return await _end(context, dropping=False)


async def drop(context: RequestContext) -> Response:
    """Leave out the failed message, and go on with those that wait behind it."""
    return await _end(context, dropping=True)


async def _end(context: RequestContext, *, dropping: bool) -> Response:
    quarantines = await _load(context)
    await end_quarantine(context.api.platform.log, quarantines, dropping=dropping)
    consumers = ", ".join(quarantine.consumer for quarantine in quarantines)
    word = "Dropped" if dropping else "Released"
    _log.warning("%s of %s: %s by %s", context.id, consumers, word, context.access.actor)
    return model_response(Status(status=word, message=f"{context.id}: {consumers} will process it again"))


async def _load(context: RequestContext) -> list[QuarantineEntry]:
    """Return the quarantines of the entity that the path names. Raises NotFound."""
    consumer = context.query.get("consumer")
    quarantines = [
        quarantine
        for quarantine in await list_entries(context.api.platform.log)
        if quarantine.key == context.id and consumer in {None, quarantine.consumer}
    ]
    if not quarantines:
        of = f" of {consumer}" if consumer else ""
        raise NotFound(f"id: {context.id} is not in quarantine{of}")
    return quarantines


def _present(
    quarantine: QuarantineEntry, messages: list[QuarantinedMessage] | None = None
) -> QuarantinedEntity:
    return QuarantinedEntity(
        id=quarantine.key,
        consumer=quarantine.consumer,
        reason=quarantine.reason,
        since=datetime.fromisoformat(quarantine.since),
        waiting=quarantine.waiting,
        messages=messages or [],
    )


def _command(value: bytes | None) -> str:
    """Return the name of a message's command, or `unreadable`."""
    try:
        return str(orjson.loads(value or b"")["command"])
    except (ValueError, LookupError, TypeError):
        return "unreadable"
