"""The collections for asyncio: the same methods as in `collections.py`, awaited. A test compares the two.

The methods' docstrings stand there; requests and flows are described once for both.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from steelyard.client.calls import Calls, Request, Workflow
from steelyard.client.collections import (
    WAIT_SECONDS,
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
from steelyard.client.files import Paths, by_name
from steelyard.client.flows import Evidence, Flows, UploadOptions
from steelyard.client.pages import Pages
from steelyard.client.transfer import Progress, quiet
from steelyard.client.transport import AsyncTransport
from steelyard_schema.answers import (
    CroissantTaken,
    InferenceSessionAndToken,
    PipelineRunStatus,
    Status,
    WorkflowLogsResponse,
    WorkflowProgress,
)
from steelyard_schema.base import DocumentationBase, DyffEntity
from steelyard_schema.curve import Curve
from steelyard_schema.dataset import Dataset
from steelyard_schema.family import Family
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.oci_artifact import OCIArtifact
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.publication import Access
from steelyard_schema.safety_case import SafetyCase
from steelyard_schema.score import Score
from steelyard_schema.spending import ServiceSpending

E = TypeVar("E", bound=DyffEntity)
A = TypeVar("A", bound=type)


def document_by(sync: type) -> Callable[[A], A]:
    """Give the methods of a class the docstrings of the sync class."""

    def copy_docstrings(kind: A) -> A:
        for name, method in vars(kind).items():
            if callable(method) and not name.startswith("_") and not method.__doc__:
                method.__doc__ = getattr(sync, name).__doc__
        return kind

    return copy_docstrings


@document_by(Collection)
class AsyncCollection(Generic[E]):
    """Entities of one kind."""

    def __init__(self, calls: Calls[E], transport: AsyncTransport) -> None:
        self._calls, self._transport = calls, transport
        self._flows = Flows(calls, transport.sender.retries)

    async def create(
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> E:
        return await self._transport.send(self._calls.create(request, fields, idempotency_key))

    async def get(self, id: str) -> E:
        return await self._transport.send(self._calls.get(id))

    async def query(self, **filters: Any) -> AsyncIterator[E]:
        pages = Pages(self._calls.path, self._calls.entity, filters, filters.pop("limit", None))
        while (call := pages.call()) is not None:
            for entity in pages.take(await self._transport.send(call)):
                yield entity

    async def delete(self, id: str) -> Status:
        return await self._transport.send(self._calls.delete(id))

    async def label(self, id: str, labels: Mapping[str, str | None]) -> None:
        await self._transport.send(self._calls.label(id, labels))

    async def publish(self, id: str, access: Access) -> None:
        await self._transport.send(self._calls.publish(id, access))

    async def documentation(self, id: str) -> DocumentationBase:
        return await self._transport.send(self._calls.documentation(id))

    async def edit_documentation(self, id: str, **patch: str | None) -> DocumentationBase:
        return await self._transport.send(self._calls.edit_documentation(id, patch))

    async def terminate(self, id: str) -> Status:
        return await self._transport.send(self._calls.terminate(id))

    async def rerun(self, id: str, *, idempotency_key: str | None = None) -> E:
        return await self._transport.send(self._calls.rerun(id, {}, idempotency_key))

    async def wait(
        self, id: str, *, timeout: float = WAIT_SECONDS, on_change: Callable[[E], None] | None = None
    ) -> E:
        return await self._transport.run(self._flows.wait(id, timeout, on_change))

    async def download(
        self, id: str, folder: Path | str, *, progress: Progress = quiet, paths: Iterable[str] | None = None
    ) -> list[Path]:
        wanted = None if paths is None else frozenset(paths)
        return await self._transport.run(self._flows.download(id, Path(folder), progress, wanted))

    async def download_evidence(self, id: str, folder: Path | str, *, progress: Progress = quiet) -> Evidence:
        return await self._transport.run(self._flows.evidence(id, Path(folder), progress))

    async def progress(self, id: str) -> WorkflowProgress:
        return await self._transport.send(self._calls.progress(id))

    async def logs(self, id: str, *, since: str | None = None, limit: int = 1000) -> WorkflowLogsResponse:
        return await self._transport.send(self._calls.logs(id, since, limit))


@document_by(Uploads)
class AsyncUploads(AsyncCollection[E]):
    """Entities whose files the client uploads."""

    async def upload(
        self,
        id: str,
        files: Paths,
        *,
        progress: Progress = quiet,
        wait: bool = False,
        timeout: float = WAIT_SECONDS,
    ) -> E:
        return await self._transport.run(
            self._flows.upload(id, files, UploadOptions(progress, wait, timeout))
        )

    async def finalize(self, id: str) -> None:
        await self._transport.send(self._calls.finalize(id))

    async def create_from_folder(
        self,
        folder: Paths,
        *,
        account: str,
        name: str,
        progress: Progress = quiet,
        wait: bool = False,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> E:
        request = {**fields, "account": account, "name": name}
        return await self._transport.run(
            self._flows.from_files(folder, request, idempotency_key, UploadOptions(progress, wait))
        )


@document_by(Datasets)
class AsyncDatasets(AsyncUploads[Dataset]):
    """Rows that never change once they are Ready."""

    async def create_from_parquet(self, *files: Path | str, account: str, name: str, **more: Any) -> Dataset:
        return await self.create_from_folder(by_name(files), account=account, name=name, **more)

    async def croissant(self, id: str) -> dict[str, Any]:
        return await self._transport.send(self._calls.croissant(id))

    async def take_croissant(self, id: str, content: Mapping[str, Any] | None = None) -> CroissantTaken:
        return await self._transport.send(self._calls.take_croissant(id, content))


@document_by(InferenceServices)
class AsyncInferenceServices(AsyncCollection[InferenceService]):
    """Servers of models, and hosted models of providers."""

    async def spending(self, id: str) -> ServiceSpending:
        return await self._transport.send(self._calls.spending(id))


@document_by(InferenceSessions)
class AsyncInferenceSessions(AsyncCollection[InferenceSession]):
    """Replicas that run for a while."""

    async def create(  # type: ignore[override]  # a session comes with its token
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> InferenceSessionAndToken:
        return await self._transport.run(self._flows.session(request, fields, idempotency_key))

    async def rerun(  # type: ignore[override]  # a session comes with its token
        self, id: str, *, idempotency_key: str | None = None
    ) -> InferenceSessionAndToken:
        return await self._transport.run(self._flows.session_again(id, idempotency_key))

    async def ready(self, id: str) -> bool:
        return await self._transport.run(self._flows.ready(id))

    async def token(self, id: str, *, expires: datetime | None = None) -> str:
        return await self._transport.send(self._calls.session_token(id, expires))

    async def infer(self, id: str, endpoint: str, body: Any, *, token: str | None = None) -> Any:
        return await self._transport.run(self._flows.infer(id, endpoint, body, token))


@document_by(Artifacts)
class AsyncArtifacts(AsyncCollection[OCIArtifact]):
    async def finalize(self, id: str) -> None:
        await self._transport.send(self._calls.finalize(id))


@document_by(Families)
class AsyncFamilies(AsyncCollection[Family]):
    """Versions of one thing, as people see it."""

    async def edit_members(self, id: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._transport.send(self._calls.edit_members(id, members))


@document_by(SafetyCases)
class AsyncSafetyCases(AsyncCollection[SafetyCase]):
    """Pages with scores and curves that methods make."""

    async def scores(self, id: str) -> list[Score]:
        return await self._transport.send(self._calls.scores(id))

    async def curves(self, id: str) -> list[Curve]:
        return await self._transport.send(self._calls.curves(id))

    async def query_scores(self, **filters: Any) -> AsyncIterator[Score]:
        pages = Pages(f"{self._calls.path}/scores", Score, filters, filters.pop("limit", None))
        while (call := pages.call()) is not None:
            for score in pages.take(await self._transport.send(call)):
                yield score

    async def query_curves(self, **filters: Any) -> AsyncIterator[Curve]:
        pages = Pages(f"{self._calls.path}/curves", Curve, filters, filters.pop("limit", None))
        while (call := pages.call()) is not None:
            for curve in pages.take(await self._transport.send(call)):
                yield curve


@document_by(PipelineRuns)
class AsyncPipelineRuns(AsyncCollection[PipelineRun]):
    """Runs of pipelines."""

    async def create(
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> PipelineRun:
        return await self._transport.send(self._calls.run(request, fields, idempotency_key))

    async def rerun(self, id: str, *, idempotency_key: str | None = None, **fields: Any) -> PipelineRun:
        return await self._transport.send(self._calls.rerun(id, fields, idempotency_key))

    async def status(self, id: str) -> PipelineRunStatus:
        return await self._transport.send(self._calls.run_status(id))

    async def workflows(self, id: str) -> dict[str, Workflow]:
        return await self._transport.send(self._calls.run_workflows(id))
