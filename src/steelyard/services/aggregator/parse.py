"""Makes a command from a record of the log. What cannot be read is named, field by field, in the error.

`Malformed` puts the entity in quarantine, and the others go on. `StopPartition` says that a newer program is needed.
"""

from collections.abc import Mapping
from datetime import datetime

from steelyard.broker.consume import Malformed, StopPartition
from steelyard.broker.log import Record
from steelyard.services.aggregator.messages import State
from steelyard_schema.commands import Command, FutureSchema, MalformedCommand, check_version, parse_command

_REQUIRED = ("id", "source", "time")


def check_readable(state: State | None) -> None:
    """Raise StopPartition for an entity that a newer program has written, Malformed for one of no known version."""
    if state is not None and state.content is not None:
        try:
            check_version(str(state.content.get("schemaVersion")))
        except MalformedCommand as error:
            raise Malformed(f"the entity's {error}") from error
        except FutureSchema as error:
            raise StopPartition(f"the entity's {error}") from error


def read_command(record: Record) -> Command:
    """Return the command that a record holds. Raises Malformed, which names the field, and StopPartition."""
    _check_headers(record.headers)
    if record.value is None:
        raise Malformed("value: is missing")
    try:
        command = parse_command(record.value)
    except MalformedCommand as error:
        raise Malformed(str(error)) from error
    except FutureSchema as error:
        raise StopPartition(str(error)) from error
    if command.data.id != record.key:
        raise Malformed(f"data.id: is {command.data.id}, and the message's key {record.key}")
    return command


def _check_headers(headers: Mapping[str, str]) -> None:
    for name in _REQUIRED:
        if not headers.get(name):
            raise Malformed(f"headers.{name}: is missing")
    try:
        has_time_zone = datetime.fromisoformat(headers["time"]).tzinfo is not None
    except ValueError:
        has_time_zone = False
    if not has_time_zone:
        raise Malformed(
            f"headers.time: {headers['time']!r} is not a time such as 2030-01-31T12:00:00.000001Z"
        )
