"""The same client for asyncio: the same collections and methods, awaited.

Every method of a sync collection is here with the same name and arguments. Requests are sent by httpx's async client;
what reads or writes files runs on a thread.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import httpx
from pydantic import BaseModel

from steelyard.client.calls import PAGE, Calls, cursor
from steelyard.client.client import Client
from steelyard.client.collections import WAIT_SECONDS
from steelyard.client.files import Progress, quiet
from steelyard.client.retries import Retries
from steelyard.client.transport import TIMEOUT, AsyncTransport
from steelyard.client.waiting import Waiting
from steelyard.schema.answers import InferenceSessionAndToken, Status, WorkflowLogsResponse
from steelyard.schema.audit import Audit, AuditProcedure
from steelyard.schema.base import DocumentationBase, DyffEntity
from steelyard.schema.dataset import Dataset
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.inference_service import InferenceService
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.model import Model
from steelyard.schema.module import Module
from steelyard.schema.report import Report

E = TypeVar("E", bound=DyffEntity)
Request = BaseModel | Mapping[str, Any] | None


class AsyncCollection(Generic[E]):
    """Entities of one kind; see `steelyard.client.collections` for what each method does."""

    def __init__(self, calls: Calls[E], transport: AsyncTransport, files: Any) -> None:
        self._calls, self._transport = calls, transport
        self._files = files  # the sync collection, for what reads or writes files

    async def create(
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> E:
        return await self._transport.send(self._calls.create(request, fields, idempotency_key))

    async def get(self, id: str) -> E:
        return await self._transport.send(self._calls.get(id))

    async def query(self, **filters: Any) -> AsyncIterator[E]:
        left: int | None = filters.pop("limit", None)
        order_by = filters.setdefault("orderBy", "creationTime")
        last = None
        while left is None or left > 0:
            size = PAGE if left is None else min(left, PAGE)
            page = await self._transport.send(self._calls.page(filters, last, size))
            for entity in page:
                yield entity
            left = None if left is None else left - len(page)
            last = cursor(page[-1], order_by) if page else None
            if len(page) < size or last is None:
                return

    async def delete(self, id: str) -> Status:
        return await self._transport.send(self._calls.delete(id))

    async def terminate(self, id: str) -> Status:
        return await self._transport.send(self._calls.terminate(id))

    async def label(self, id: str, labels: Mapping[str, str | None]) -> None:
        await self._transport.send(self._calls.label(id, labels))

    async def documentation(self, id: str) -> DocumentationBase:
        return await self._transport.send(self._calls.documentation(id))

    async def edit_documentation(self, id: str, **patch: str | None) -> DocumentationBase:
        return await self._transport.send(self._calls.edit_documentation(id, patch))

    async def wait(
        self, id: str, *, timeout: float = WAIT_SECONDS, on_change: Callable[[E], None] | None = None
    ) -> E:
        waiting = Waiting[E](time.monotonic() + timeout, on_change)
        while True:
            entity = await self.get(id)
            pause = waiting.look(entity, time.monotonic())
            if pause is None:
                return entity
            await asyncio.sleep(pause)

    async def logs(self, id: str, *, since: str | None = None, limit: int = 1000) -> WorkflowLogsResponse:
        return await self._transport.send(self._calls.logs(id, since, limit))

    async def download(self, id: str, folder: Path | str, *, progress: Progress = quiet) -> list[Path]:
        found: list[Path] = await asyncio.to_thread(self._files.download, id, folder, progress=progress)
        return found


class AsyncUploaded(AsyncCollection[E]):
    """Kinds whose files a client brings."""

    async def upload(self, id: str, folder: Path | str, *, progress: Progress = quiet) -> E:
        entity: E = await asyncio.to_thread(self._files.upload, id, folder, progress=progress)
        return entity

    async def finalize(self, id: str) -> None:
        await self._transport.send(self._calls.finalize(id))

    async def create_from_folder(self, folder: Path | str, **fields: Any) -> E:
        entity: E = await asyncio.to_thread(self._files.create_from_folder, folder, **fields)
        return entity


class AsyncInferenceSessions(AsyncCollection[InferenceSession]):
    """Replicas that run for a while."""

    async def create(  # type: ignore[override]  # a session comes with its token
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> InferenceSessionAndToken:
        return await self._transport.send(self._calls.create_session(request, fields, idempotency_key))

    async def infer(self, id: str, endpoint: str, body: Any, *, token: str) -> Any:
        return await self._transport.send(self._calls.infer(id, endpoint, body, token))


class AsyncClient:
    """As `Client`, for asyncio. Accounts are the sync client's matter."""

    def __init__(
        self, endpoint: str | None = None, token: str | None = None, *, retries: Retries = Retries()
    ) -> None:
        self._sync = Client(endpoint, token, retries=retries)
        connection = self._sync.connection
        self._http = httpx.AsyncClient(timeout=TIMEOUT, trust_env=False)
        transport = AsyncTransport(connection, self._http, retries)
        self.endpoint, sync = connection.endpoint, self._sync
        self.datasets = AsyncUploaded(Calls("datasets", Dataset), transport, sync.datasets)
        self.modules = AsyncUploaded(Calls("modules", Module), transport, sync.modules)
        self.models = AsyncUploaded(Calls("models", Model), transport, sync.models)
        self.inferenceservices = AsyncCollection(
            Calls("inferenceservices", InferenceService), transport, sync.inferenceservices
        )
        self.inferencesessions = AsyncInferenceSessions(
            Calls("inferencesessions", InferenceSession), transport, sync.inferencesessions
        )
        self.evaluations = AsyncCollection(Calls("evaluations", Evaluation), transport, sync.evaluations)
        self.reports = AsyncCollection(Calls("reports", Report), transport, sync.reports)
        self.auditprocedures = AsyncCollection(
            Calls("auditprocedures", AuditProcedure), transport, sync.auditprocedures
        )
        self.audits = AsyncCollection(Calls("audits", Audit), transport, sync.audits)

    async def close(self) -> None:
        await self._http.aclose()
        self._sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
