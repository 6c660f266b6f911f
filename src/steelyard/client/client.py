"""The client: one address, one token, one collection per kind; sync and async."""

from types import TracebackType
from typing import Self

import httpx

from steelyard.client.accounts import Accounts, AsyncAccounts
from steelyard.client.administration import AsyncBackup, AsyncQuarantine, Backup, Quarantine
from steelyard.client.async_challenges import AsyncChallenges, AsyncSubmissions, AsyncTeams
from steelyard.client.async_collections import (
    AsyncArtifacts,
    AsyncCollection,
    AsyncDatasets,
    AsyncFamilies,
    AsyncInferenceServices,
    AsyncInferenceSessions,
    AsyncPipelineRuns,
    AsyncSafetyCases,
    AsyncUploads,
)
from steelyard.client.calls import Calls
from steelyard.client.challenge_calls import ChallengeCalls, SubmissionCalls, TeamCalls
from steelyard.client.challenges import Challenges, Submissions, Teams
from steelyard.client.collections import (
    Artifacts,
    Collection,
    Datasets,
    Families,
    InferenceServices,
    InferenceSessions,
    PipelineRuns,
    SafetyCases,
    Uploads,
)
from steelyard.client.connection import Connection, find
from steelyard.client.quotas import AsyncQuotas, Quotas
from steelyard.client.retries import Retries
from steelyard.client.secrets import AsyncSecrets, Secrets
from steelyard.client.transport import AsyncTransport, Sender, Transport
from steelyard.client.webhooks import AsyncWebhooks, Webhooks
from steelyard_schema.account import Account
from steelyard_schema.answers import QuarantinedEntity
from steelyard_schema.audit import Audit, AuditProcedure
from steelyard_schema.base import DyffEntity
from steelyard_schema.challenge import Challenge
from steelyard_schema.concern import Hazard, UseCase
from steelyard_schema.data_source import DataSource
from steelyard_schema.dataset import Dataset
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.family import Family
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.measurement import Measurement
from steelyard_schema.method import Method
from steelyard_schema.model import Model
from steelyard_schema.module import Module
from steelyard_schema.oci_artifact import OCIArtifact
from steelyard_schema.pipeline import Pipeline
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.quota import StoredQuota
from steelyard_schema.report import Report
from steelyard_schema.safety_case import SafetyCase
from steelyard_schema.submission import Submission
from steelyard_schema.team import Team


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
        self.datasources = Uploads(Calls("datasources", DataSource), transport)
        self.datasets = Datasets(Calls("datasets", Dataset), transport)
        self.modules = Uploads(Calls("modules", Module), transport)
        self.artifacts = Artifacts(Calls("artifacts", OCIArtifact), transport)
        self.models = Uploads(Calls("models", Model), transport)
        self.inferenceservices = InferenceServices(Calls("inferenceservices", InferenceService), transport)
        self.inferencesessions = InferenceSessions(Calls("inferencesessions", InferenceSession), transport)
        self.evaluations = Collection(Calls("evaluations", Evaluation), transport)
        self.reports = Collection(Calls("reports", Report), transport)
        self.auditprocedures = Collection(Calls("auditprocedures", AuditProcedure), transport)
        self.audits = Collection(Calls("audits", Audit), transport)
        self.methods = Collection(Calls("methods", Method), transport)
        self.measurements = Collection(Calls("measurements", Measurement), transport)
        self.safetycases = SafetyCases(Calls("safetycases", SafetyCase), transport)
        self.families = Families(Calls("families", Family), transport)
        self.usecases = Collection(Calls("usecases", UseCase), transport)
        self.hazards = Collection(Calls("hazards", Hazard), transport)
        self.pipelines = Collection(Calls("pipelines", Pipeline), transport)
        self.pipelineruns = PipelineRuns(Calls("pipelines/runs", PipelineRun), transport)
        self.challenges = Challenges(ChallengeCalls("challenges", Challenge), transport)
        self.teams = Teams(TeamCalls("teams", Team), transport)
        self.submissions = Submissions(SubmissionCalls("submissions", Submission), transport)
        self.secrets = Secrets(Calls("accounts", Account), transport)
        self.webhooks = Webhooks(transport)
        self.quotas = Quotas(Calls("quotas", StoredQuota), transport)
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
        self.datasources = AsyncUploads(Calls("datasources", DataSource), transport)
        self.datasets = AsyncDatasets(Calls("datasets", Dataset), transport)
        self.modules = AsyncUploads(Calls("modules", Module), transport)
        self.artifacts = AsyncArtifacts(Calls("artifacts", OCIArtifact), transport)
        self.models = AsyncUploads(Calls("models", Model), transport)
        self.inferenceservices = AsyncInferenceServices(
            Calls("inferenceservices", InferenceService), transport
        )
        self.inferencesessions = AsyncInferenceSessions(
            Calls("inferencesessions", InferenceSession), transport
        )
        self.evaluations = AsyncCollection(Calls("evaluations", Evaluation), transport)
        self.reports = AsyncCollection(Calls("reports", Report), transport)
        self.auditprocedures = AsyncCollection(Calls("auditprocedures", AuditProcedure), transport)
        self.audits = AsyncCollection(Calls("audits", Audit), transport)
        self.methods = AsyncCollection(Calls("methods", Method), transport)
        self.measurements = AsyncCollection(Calls("measurements", Measurement), transport)
        self.safetycases = AsyncSafetyCases(Calls("safetycases", SafetyCase), transport)
        self.families = AsyncFamilies(Calls("families", Family), transport)
        self.usecases = AsyncCollection(Calls("usecases", UseCase), transport)
        self.hazards = AsyncCollection(Calls("hazards", Hazard), transport)
        self.pipelines = AsyncCollection(Calls("pipelines", Pipeline), transport)
        self.pipelineruns = AsyncPipelineRuns(Calls("pipelines/runs", PipelineRun), transport)
        self.challenges = AsyncChallenges(ChallengeCalls("challenges", Challenge), transport)
        self.teams = AsyncTeams(TeamCalls("teams", Team), transport)
        self.submissions = AsyncSubmissions(SubmissionCalls("submissions", Submission), transport)
        self.secrets = AsyncSecrets(Calls("accounts", Account), transport)
        self.webhooks = AsyncWebhooks(transport)
        self.quotas = AsyncQuotas(Calls("quotas", StoredQuota), transport)
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
