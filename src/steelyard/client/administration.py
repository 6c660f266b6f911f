"""The collections `client.quarantine` and `client.backup`, for administrators."""

from collections.abc import Sequence

from steelyard.client.async_collections import document_by
from steelyard.client.calls import Calls
from steelyard.client.transport import AsyncTransport, Transport
from steelyard_schema.answers import QuarantinedEntity, Status
from steelyard_schema.base import DyffEntity


class Quarantine:
    """Entities in quarantine, since a consumer could not take a message about them; for administrators."""

    def __init__(self, calls: Calls[QuarantinedEntity], transport: Transport) -> None:
        self._calls, self._transport = calls, transport

    def list(self) -> list[QuarantinedEntity]:
        """Return all entities in quarantine, the longest there first."""
        return self._transport.send(self._calls.list_quarantine())

    def get(self, id: str, consumer: str | None = None) -> Sequence[QuarantinedEntity]:
        """Return the quarantines of one entity, by consumer, with the messages that wait. Raises NotFound."""
        return self._transport.send(self._calls.find_quarantine(id, consumer))

    def release(self, id: str, consumer: str | None = None) -> Status:
        """Try the failed message once more, then those that wait behind it. Raises NotFound."""
        return self._transport.send(self._calls.end_quarantine(id, "release", consumer))

    def drop(self, id: str, consumer: str | None = None) -> Status:
        """Leave out the failed message, and go on with those that wait behind it. Raises NotFound."""
        return self._transport.send(self._calls.end_quarantine(id, "drop", consumer))


@document_by(Quarantine)
class AsyncQuarantine:
    """Entities in quarantine, since a consumer could not take a message about them; for administrators."""

    def __init__(self, calls: Calls[QuarantinedEntity], transport: AsyncTransport) -> None:
        self._calls, self._transport = calls, transport

    async def list(self) -> list[QuarantinedEntity]:
        return await self._transport.send(self._calls.list_quarantine())

    async def get(self, id: str, consumer: str | None = None) -> Sequence[QuarantinedEntity]:
        return await self._transport.send(self._calls.find_quarantine(id, consumer))

    async def release(self, id: str, consumer: str | None = None) -> Status:
        return await self._transport.send(self._calls.end_quarantine(id, "release", consumer))

    async def drop(self, id: str, consumer: str | None = None) -> Status:
        return await self._transport.send(self._calls.end_quarantine(id, "drop", consumer))


class Backup:
    """The backup, as far as entities are brought back from it; for administrators."""

    def __init__(self, calls: Calls[DyffEntity], transport: Transport) -> None:
        self._calls, self._transport = calls, transport

    def restore(self, id: str) -> Status:
        """Bring back an entity that was deleted or forgotten, with the status that it had before.

        Raises NotFound where the backup has it no more, Conflict where it is not deleted.
        """
        return self._transport.send(self._calls.restore_entity(id))


@document_by(Backup)
class AsyncBackup:
    """The backup, as far as entities are brought back from it; for administrators."""

    def __init__(self, calls: Calls[DyffEntity], transport: AsyncTransport) -> None:
        self._calls, self._transport = calls, transport

    async def restore(self, id: str) -> Status:
        return await self._transport.send(self._calls.restore_entity(id))
