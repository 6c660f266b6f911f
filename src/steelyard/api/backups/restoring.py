"""Handler for administrators: bring back an entity that was deleted or forgotten."""

import logging

import orjson
from pydantic import ValidationError
from starlette.responses import Response

from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, NotFound, Unavailable
from steelyard.api.http.responses import model_response
from steelyard.broker.log import STATE
from steelyard_common.errors import SteelyardError
from steelyard_evaluation.storage.store import StorageError
from steelyard_schema.answers import Status
from steelyard_schema.commands import PutQuota, RestoreAttributes, RestoreData, RestoreEntity, command_time
from steelyard_schema.entities import AnyEntity, kind_of_fault, parse_stored
from steelyard_schema.faults import faults_text
from steelyard_schema.quota import Quota, StoredQuota

_log = logging.getLogger(__name__)


async def restore(context: RequestContext) -> Response:
    """Give the entity its content back, and the status that it had before it was deleted."""
    await context.json()
    return await _restore(context)


async def _restore(context: RequestContext) -> Response:
    backup, log = context.api.platform.backup, context.api.platform.log
    latest = await log.latest(STATE, context.id)
    if latest is None:
        raise NotFound(f"id: no entity {context.id} is known, nor was one forgotten")
    if backup is None:
        raise Unavailable("this API server was started without a backup")
    there = (
        orjson.loads(latest.value)
        if latest.value is not None and not latest.headers.get("forgotten")
        else None
    )
    if there is not None and there["status"] != "Deleted":
        raise Conflict(f"id: {there['kind']} {context.id} is {there['status']}: there is nothing to restore")
    try:
        content = await backup.last_content(context.id, latest)
    except (SteelyardError, StorageError) as error:
        raise Unavailable(f"the backup cannot be read: {error}") from error
    if content is None:
        raise NotFound(f"id: {context.id} was forgotten, and is in the backup no more")
    revision = (there.get("metadata") or {}).get("revision") if there is not None else None
    try:
        entity = parse_stored({**content, "lastTransitionTime": command_time(context.now)})
    except ValidationError as error:
        raise Conflict(
            f"id: what the backup has of {context.id} is not an entity of this version: "
            f"{faults_text(error, model=kind_of_fault(error))}"
        ) from error
    command = _set_again(entity) if isinstance(entity, StoredQuota) else _restore_command(entity, revision)
    try:
        await context.api.commands.edit(command, context.command_origin(), context.now)
    except NotFound:
        if there is None:
            raise
        return await _restore(context)  # the reaper forgot it since it was read; the backup has it still
    _log.warning("%s %s was restored by %s", entity.kind, entity.id, context.access.actor)
    message = f"{entity.kind} {entity.id} is restored"
    return model_response(Status(status=entity.status, reason=entity.reason, message=message))


def _restore_command(entity: AnyEntity, revision: str | None) -> RestoreEntity:
    attributes = RestoreAttributes(
        entity=entity,
        ifRevisionMatch=revision,
        # The aggregator decides: another caller's restoration of a moment ago must not be overwritten.
        ifRevisionUndefined=None if revision is not None else True,
    )
    return RestoreEntity(data=RestoreData(id=entity.id, kind=entity.kind, attributes=attributes))


def _set_again(quota: StoredQuota) -> PutQuota:
    """Return the command that sets a quota's limit again: no command restores one, as any may be set at any time."""
    return PutQuota(
        data=Quota.parse(
            {**quota.model_dump(mode="json", exclude={"labels"}, exclude_none=True), "status": "Ready"}
        )
    )
