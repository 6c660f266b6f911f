"""The client: one address, one token, one collection per kind; sync and async."""

from types import TracebackType
from typing import Self

import httpx

from steelyard.client.async_collections import (
    AsyncAccounts,
    AsyncBackup,
    AsyncCollection,
    AsyncDatasets,
    AsyncInferenceSessions,
    AsyncQuarantine,
    AsyncUploaded,
)
from steelyard.client.calls import Calls
from steelyard.client.collections import (
    Accounts,
    Backup,
    Collection,
    Datasets,
    InferenceSessions,
    Quarantine,
    Uploaded,
)
from steelyard.client.connection import Connection, find
from steelyard.client.retries import Retries
from steelyard.client.transport import AsyncTransport, Sender, Transport
from steelyard.schema.account import Account
from steelyard.schema.answers import QuarantinedEntity
from steelyard.schema.audit import Audit, AuditProcedure
from steelyard.schema.base import DyffEntity
from steelyard.schema.dataset import Dataset
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.inference_service import InferenceService
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.model import Model
from steelyard.schema.module import Module
from steelyard.schema.report import Report


class Client:
    """The platform, from Python: `Client().evaluations.create(…)`.

    `endpoint` ends in /v0. If endpoint or token are not given, they are taken from `STEELYARD_API_ENDPOINT` and
    `STEELYARD_API_TOKEN`, `DYFF_API_ENDPOINT` and `DYFF_API_TOKEN`, `./.steelyard` or the user's state folder. Raises
    NotConfigured. Requests without an answer are sent again, as `retries` says; each has an idempotency key, so that
    nothing is created or changed twice. `http` sends the requests, for tests and for proxies of your own.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        retries: Retries = Retries(),
        http: httpx.Client | None = None,
    ) -> None:
        connection = find(endpoint, token)
        self.endpoint = connection.endpoint
        self._http = http or _http(connection)
        transport = Transport(Sender(connection, retries), self._http, self._http)
        self.accounts = Accounts(Calls("accounts", Account), transport)
        self.datasets = Datasets(Calls("datasets", Dataset), transport)
        self.modules = Uploaded(Calls("modules", Module), transport)
        self.models = Uploaded(Calls("models", Model), transport)
        self.inferenceservices = Collection(Calls("inferenceservices", InferenceService), transport)
        self.inferencesessions = InferenceSessions(Calls("inferencesessions", InferenceSession), transport)
        self.evaluations = Collection(Calls("evaluations", Evaluation), transport)
        self.reports = Collection(Calls("reports", Report), transport)
        self.auditprocedures = Collection(Calls("auditprocedures", AuditProcedure), transport)
        self.audits = Collection(Calls("audits", Audit), transport)
        self.backup = Backup(Calls("backup", DyffEntity), transport)
        self.quarantine = Quarantine(Calls("quarantine", QuarantinedEntity), transport)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient:
    """The platform, from asyncio: the collections and methods of `Client`, awaited; `async for` iterates a `query`.

    Files are transferred on threads, by the HTTP client `files`.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        retries: Retries = Retries(),
        http: httpx.AsyncClient | None = None,
        files: httpx.Client | None = None,
    ) -> None:
        connection = find(endpoint, token)
        self.endpoint = connection.endpoint
        self._http = http or httpx.AsyncClient(trust_env=not connection.is_local)
        self._files = files or _http(connection)
        transport = AsyncTransport(Sender(connection, retries), self._http, self._files)
        self.accounts = AsyncAccounts(Calls("accounts", Account), transport)
        self.datasets = AsyncDatasets(Calls("datasets", Dataset), transport)
        self.modules = AsyncUploaded(Calls("modules", Module), transport)
        self.models = AsyncUploaded(Calls("models", Model), transport)
        self.inferenceservices = AsyncCollection(Calls("inferenceservices", InferenceService), transport)
        self.inferencesessions = AsyncInferenceSessions(
            Calls("inferencesessions", InferenceSession), transport
        )
        self.evaluations = AsyncCollection(Calls("evaluations", Evaluation), transport)
        self.reports = AsyncCollection(Calls("reports", Report), transport)
        self.auditprocedures = AsyncCollection(Calls("auditprocedures", AuditProcedure), transport)
        self.audits = AsyncCollection(Calls("audits", Audit), transport)
        self.backup = AsyncBackup(Calls("backup", DyffEntity), transport)
        self.quarantine = AsyncQuarantine(Calls("quarantine", QuarantinedEntity), transport)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()
        self._files.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _http(connection: Connection) -> httpx.Client:
    """Return an HTTP client; the environment's proxies are not used for this machine itself."""
    return httpx.Client(trust_env=not connection.is_local)
