"""Commands as the parts of the platform send them, and their records. For tests of aggregator, sinks and reaper."""

from datetime import datetime, timedelta
from itertools import count
from typing import Any

from steelyard.broker.log import AGGREGATOR, EVENTS, Log, Message, Record
from steelyard.broker.simulation.replay import work_off
from steelyard.services.aggregator.aggregator import Aggregator
from steelyard.services.simulation.entities import START
from steelyard.services.status_commands import command_id
from steelyard_schema.base import DyffEntity
from steelyard_schema.commands import (
    Command,
    CreateEntity,
    DocumentationAttributes,
    DocumentationData,
    DocumentationPatch,
    EditEntityDocumentation,
    EditEntityLabels,
    ForgetData,
    ForgetEntity,
    LabelsData,
    LabelsPatch,
    RestoreAttributes,
    RestoreData,
    RestoreEntity,
    StatusData,
    StatusPatch,
    UpdateEntityStatus,
    command_time,
)

_ids = count()


def create(entity: DyffEntity) -> CreateEntity:
    return CreateEntity.model_validate({"data": entity.dump()})


def status(
    entity: DyffEntity, new: str, reason: str | None = None, message: str | None = None
) -> UpdateEntityStatus:
    patch = StatusPatch(status=new, reason=reason, message=message)
    return UpdateEntityStatus(data=StatusData(**_identifier(entity), attributes=patch))


def labels(entity: DyffEntity, **values: str | None) -> EditEntityLabels:
    return EditEntityLabels(data=LabelsData(**_identifier(entity), attributes=LabelsPatch(labels=values)))


def documentation(entity: DyffEntity, **values: str | None) -> EditEntityDocumentation:
    attributes = DocumentationAttributes(documentation=DocumentationPatch(**values))
    return EditEntityDocumentation(data=DocumentationData(**_identifier(entity), attributes=attributes))


def restore(entity: DyffEntity, **conditions: str | bool) -> RestoreEntity:
    attributes = RestoreAttributes.parse({"entity": entity.dump(), **conditions})
    return RestoreEntity(data=RestoreData(**_identifier(entity), attributes=attributes))


def forget(entity: DyffEntity, **conditions: str) -> ForgetEntity:
    return ForgetEntity(data=ForgetData.parse({**_identifier(entity), **conditions}))


def _identifier(entity: DyffEntity) -> dict[str, Any]:
    return {"id": entity.id, "kind": type(entity).__name__}


def headers(source: str, after: timedelta = timedelta(), **more: str) -> dict[str, str]:
    """Return the headers of a command, with an id of its own."""
    return {"id": command_id(str(next(_ids))), "source": source, "time": command_time(START + after), **more}


def message(command: Command, source: str = "api", after: timedelta = timedelta(), **more: str) -> Message:
    return Message(EVENTS, command.data.id, command.dump_json(), headers(source, after, **more))


def record(sent: Message, offset: int, partition: int = 3, written: datetime = START) -> Record:
    """Return the record that the log would make of a message."""
    return Record(sent.topic, partition, offset, sent.key, sent.value, sent.headers, written)


async def aggregate(log: Log, *messages: Message) -> None:
    """Publish messages, and let the aggregator apply all commands of the log that it has not read yet."""
    await log.publish(messages)
    await work_off(log, AGGREGATOR, EVENTS, Aggregator)
