"""The client: one address, one token, one collection per kind."""

from types import TracebackType
from typing import Self

import httpx

from steelyard.client.calls import Calls
from steelyard.client.collections import (
    Accounts,
    Collection,
    Datasets,
    InferenceSessions,
    Models,
    Modules,
)
from steelyard.client.connection import find
from steelyard.client.retries import Retries
from steelyard.client.transport import TIMEOUT, Transport
from steelyard.schema.account import Account
from steelyard.schema.audit import Audit, AuditProcedure
from steelyard.schema.dataset import Dataset
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.inference_service import InferenceService
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.model import Model
from steelyard.schema.module import Module
from steelyard.schema.report import Report


class Client:
    """The platform, from Python: `Client().evaluations.create(…)`.

    `endpoint` ends in /v0. What is not given is looked for in `STEELYARD_API_ENDPOINT` and `STEELYARD_API_TOKEN`, in
    `DYFF_API_ENDPOINT` and `DYFF_API_TOKEN`, in `./.steelyard` and in the user's state folder. Raises NotConfigured.
    Requests that got no answer are sent again, up to `retries.tries` times; creates carry a key, so that none is
    done twice.
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
        self._http = http or httpx.Client(timeout=TIMEOUT, trust_env=False)
        transport = Transport(connection, self._http, retries)
        self.connection, self.endpoint = connection, connection.endpoint
        self.accounts = Accounts(Calls("accounts", Account), transport)
        self.datasets = Datasets(Calls("datasets", Dataset), transport)
        self.modules = Modules(Calls("modules", Module), transport)
        self.models = Models(Calls("models", Model), transport)
        self.inferenceservices = Collection(Calls("inferenceservices", InferenceService), transport)
        self.inferencesessions = InferenceSessions(Calls("inferencesessions", InferenceSession), transport)
        self.evaluations = Collection(Calls("evaluations", Evaluation), transport)
        self.reports = Collection(Calls("reports", Report), transport)
        self.auditprocedures = Collection(Calls("auditprocedures", AuditProcedure), transport)
        self.audits = Collection(Calls("audits", Audit), transport)

    def close(self) -> None:
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
