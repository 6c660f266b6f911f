"""The collection `client.quotas`."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from steelyard.client.async_collections import document_by
from steelyard.client.calls import Calls
from steelyard.client.transport import AsyncTransport, Transport
from steelyard_schema.answers import Status
from steelyard_schema.quota import StoredQuota


class Quotas:
    """Limits on what principals may use of resources."""

    def __init__(self, calls: Calls[StoredQuota], transport: Transport) -> None:
        self._calls, self._transport = calls, transport

    def set(
        self,
        principal: str,
        resource: str,
        limit: str,
        *,
        duration: timedelta | None = None,
        epoch: datetime | None = None,
    ) -> StoredQuota:
        """Set the limit of a principal, `__global__` or accounts/<account>, on a resource; return the quota.

        `limit` is a Kubernetes quantity or Unlimited. With a `duration` the quota is a rate: so much within this time,
        which slides, or without sliding in cycles from `epoch` on. Without, it is what may be held at once. It counts
        in place of the setting of the platform. Raises Invalid, Forbidden.
        """
        return self._transport.send(self._calls.set_quota(principal, resource, limit, duration, epoch))

    def get(self, id: str) -> StoredQuota:
        """Return the quota. Raises NotFound."""
        return self._transport.send(self._calls.get(id))

    def query(self, **filters: Any) -> Iterator[StoredQuota]:
        """Yield the quotas; `principal`, `resource` and `flavor` (Total, Rate) select some."""
        yield from self._transport.send(self._calls.all(filters))

    def delete(self, id: str) -> Status:
        """Delete the quota: from now on the setting of the platform counts."""
        return self._transport.send(self._calls.delete(id))

    def label(self, id: str, labels: Mapping[str, str | None]) -> None:
        """Set labels; None removes a label, others stay."""
        self._transport.send(self._calls.label(id, labels))


@document_by(Quotas)
class AsyncQuotas:
    """Limits on what principals may use of resources."""

    def __init__(self, calls: Calls[StoredQuota], transport: AsyncTransport) -> None:
        self._calls, self._transport = calls, transport

    async def set(
        self,
        principal: str,
        resource: str,
        limit: str,
        *,
        duration: timedelta | None = None,
        epoch: datetime | None = None,
    ) -> StoredQuota:
        return await self._transport.send(self._calls.set_quota(principal, resource, limit, duration, epoch))

    async def get(self, id: str) -> StoredQuota:
        return await self._transport.send(self._calls.get(id))

    async def query(self, **filters: Any) -> AsyncIterator[StoredQuota]:
        for quota in await self._transport.send(self._calls.all(filters)):
            yield quota

    async def delete(self, id: str) -> Status:
        return await self._transport.send(self._calls.delete(id))

    async def label(self, id: str, labels: Mapping[str, str | None]) -> None:
        await self._transport.send(self._calls.label(id, labels))
