"""The collections `client.datasets`, `client.evaluations` …: methods for the entities of one kind.

`async_collections.py` has the same methods, awaited. Neither decides anything: single requests are described in
`calls.py`, sequences of requests in `flows.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from steelyard.client.calls import Calls, Request, Workflow
from steelyard.client.files import Paths, by_name
from steelyard.client.flows import Evidence, Flows, UploadOptions
from steelyard.client.pages import Pages
from steelyard.client.transfer import Progress, quiet
from steelyard.client.transport import Transport
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
WAIT_SECONDS = 3600.0


class Collection(Generic[E]):
    """Entities of one kind."""

    def __init__(self, calls: Calls[E], transport: Transport) -> None:
        self._calls, self._transport = calls, transport
        self._flows = Flows(calls, transport.sender.retries)

    def create(self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any) -> E:
        """Create an entity from a request of `steelyard_schema.requests`, or from its fields.

        With an `idempotency_key`, a repeat returns the same entity. Raises Invalid, which names the field.
        """
        return self._transport.send(self._calls.create(request, fields, idempotency_key))

    def get(self, id: str) -> E:
        """Return the entity. Raises NotFound."""
        return self._transport.send(self._calls.get(id))

    def query(self, **filters: Any) -> Iterator[E]:
        """Yield every entity that matches, page by page, oldest first unless `orderBy` and `order` say otherwise.

        Filters are the API's: `status="Ready"`, `name=…`, `labels={…}`, `dataset=<id>`; of a list, one must match.
        `query={…}` has further filters, or is a list of such objects, which all must match. `limit` is the maximum
        number of entities. Raises Invalid for a filter that the kind does not have.
        """
        pages = Pages(self._calls.path, self._calls.entity, filters, filters.pop("limit", None))
        while (call := pages.call()) is not None:
            yield from pages.take(self._transport.send(call))

    def delete(self, id: str) -> Status:
        """Delete the entity and end its workflow. `message` of the answer names the entities that use it."""
        return self._transport.send(self._calls.delete(id))

    def label(self, id: str, labels: Mapping[str, str | None]) -> None:
        """Set labels; None removes a label, others stay."""
        self._transport.send(self._calls.label(id, labels))

    def publish(self, id: str, access: Access) -> None:
        """Say who sees the entity: `public`, `internal` or `private`.

        Every account of the platform may get a public entity, its documentation and scores, and download the page of a
        report, an audit or a safety case. `internal` only marks it; `private` takes the mark away. Teams, submissions
        and sessions are marked too, and shown to no other account. Raises ValueError for another word.
        """
        self._transport.send(self._calls.publish(id, access))

    def documentation(self, id: str) -> DocumentationBase:
        """Return the documentation of the entity."""
        return self._transport.send(self._calls.documentation(id))

    def edit_documentation(self, id: str, **patch: str | None) -> DocumentationBase:
        """Set `title` (at most 140 characters), `summary` (280), `fullPage`; None removes a text, others stay."""
        return self._transport.send(self._calls.edit_documentation(id, patch))

    def terminate(self, id: str) -> Status:
        """End the entity's workflow."""
        return self._transport.send(self._calls.terminate(id))

    def rerun(self, id: str, *, idempotency_key: str | None = None) -> E:
        """Run a workflow that has ended again: return a new entity of the same request, which names the earlier one.

        The account's rights and quotas count as for `create`, and so does an `idempotency_key`. Raises Conflict before
        the end, and for files that a client has uploaded.
        """
        return self._transport.send(self._calls.rerun(id, {}, idempotency_key))

    def wait(
        self, id: str, *, timeout: float = WAIT_SECONDS, on_change: Callable[[E], None] | None = None
    ) -> E:
        """Wait until the entity has ended well, or a session is ready; return the entity. `timeout` is in seconds.

        `on_change` is called with the entity at first, and whenever its status, reason or message has changed. A
        restart of the platform is waited for. Raises WorkflowFailed, and WaitTimeout, which says what the entity
        waits for.
        """
        return self._transport.run(self._flows.wait(id, timeout, on_change))

    def download(
        self, id: str, folder: Path | str, *, progress: Progress = quiet, paths: Iterable[str] | None = None
    ) -> list[Path]:
        """Download the entity's files into a folder, or only those of `paths`, and return where they are.

        Files that are there already with the same content stay, so that another call completes a download that broke
        off. Raises TransferFailed, also if a file with other content is there.
        """
        wanted = None if paths is None else frozenset(paths)
        return self._transport.run(self._flows.download(id, Path(folder), progress, wanted))

    def download_evidence(self, id: str, folder: Path | str, *, progress: Progress = quiet) -> Evidence:
        """Download a report or an audit with everything that it was made from. Raises TransferFailed.

        `steelyard report verify` and `steelyard audit verify` check the folder.
        """
        return self._transport.run(self._flows.evidence(id, Path(folder), progress))

    def progress(self, id: str) -> WorkflowProgress:
        """Return the progress of the workflow, or what it waits for and how far that is."""
        return self._transport.send(self._calls.progress(id))

    def logs(self, id: str, *, since: str | None = None, limit: int = 1000) -> WorkflowLogsResponse:
        """Return the newest lines of the workflow's Pods; `since` such as 1h, 30m or 2d.

        `totalLines` of the answer says how many there are.
        """
        return self._transport.send(self._calls.logs(id, since, limit))


class Uploads(Collection[E]):
    """Entities whose files the client uploads."""

    def upload(
        self,
        id: str,
        files: Paths,
        *,
        progress: Progress = quiet,
        wait: bool = False,
        timeout: float = WAIT_SECONDS,
    ) -> E:
        """Upload the files that the entity names, from a folder or from a mapping of names to paths, and finalize it.

        With `wait`, return once the entity is Ready. Raises BadFiles, TransferFailed.
        """
        return self._transport.run(self._flows.upload(id, files, UploadOptions(progress, wait, timeout)))

    def finalize(self, id: str) -> None:
        """Finish the upload: the platform verifies the files, which never change from then on."""
        self._transport.send(self._calls.finalize(id))

    def create_from_folder(
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
        """Create an entity of a folder's files, and upload them. Files whose names begin with a dot are left out.

        A dataset takes the Parquet files, whose schema is read from them unless `schema` is given (this needs pyarrow),
        and its documentation from a `croissant.json` in the same folder.
        A model's `resources` are by default the storage that its files take. With `wait`, return once the entity is
        Ready. With an `idempotency_key`, a repeat completes what an earlier call has begun. Raises BadFiles,
        TransferFailed.
        """
        request = {**fields, "account": account, "name": name}
        return self._transport.run(
            self._flows.from_files(folder, request, idempotency_key, UploadOptions(progress, wait))
        )


class Datasets(Uploads[Dataset]):
    """Rows that never change once they are Ready."""

    def create_from_parquet(self, *files: Path | str, account: str, name: str, **more: Any) -> Dataset:
        """Create a dataset of Parquet files under their own names. `more` are arguments of `create_from_folder`."""
        return self.create_from_folder(by_name(files), account=account, name=name, **more)

    def croissant(self, id: str) -> dict[str, Any]:
        """Return the dataset's description as Croissant 1.0, with paths relative to its downloaded files.

        If it is written as `croissant.json` into their folder, mlcroissant reads the rows. Raises Conflict before the
        dataset is Ready.
        """
        return self._transport.send(self._calls.croissant(id))

    def take_croissant(self, id: str, content: Mapping[str, Any] | None = None) -> CroissantTaken:
        """Take name, description, licence, citation and more of a Croissant file as the dataset's documentation.

        Without `content`, the file that the dataset's data source holds is taken. The answer names the parts that
        were left out. Raises Invalid for a file of another form or of another dataset.
        """
        return self._transport.send(self._calls.take_croissant(id, content))


class InferenceServices(Collection[InferenceService]):
    """Servers of models, and hosted models of providers."""

    def spending(self, id: str) -> ServiceSpending:
        """Return what a hosted model has cost, over all its sessions and evaluations."""
        return self._transport.send(self._calls.spending(id))


class InferenceSessions(Collection[InferenceSession]):
    """Replicas that run for a while."""

    def create(  # type: ignore[override]  # a session comes with its token
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> InferenceSessionAndToken:
        """Start a session; the answer has a token that counts for it alone."""
        return self._transport.run(self._flows.session(request, fields, idempotency_key))

    def rerun(  # type: ignore[override]  # a session comes with its token
        self, id: str, *, idempotency_key: str | None = None
    ) -> InferenceSessionAndToken:
        """Start a session like one that has ended, for as long as that was to last."""
        return self._transport.run(self._flows.session_again(id, idempotency_key))

    def ready(self, id: str) -> bool:
        """Return whether a replica answers."""
        return self._transport.run(self._flows.ready(id))

    def token(self, id: str, *, expires: datetime | None = None) -> str:
        """Return another token of the session; by default it expires at the session's end."""
        return self._transport.send(self._calls.session_token(id, expires))

    def infer(self, id: str, endpoint: str, body: Any, *, token: str | None = None) -> Any:
        """Send a JSON body to an `endpoint` of a replica, and return its answer.

        Without a `token`, the client uses the one that came with the session, or asks for one. The body is sent
        unchanged: pipelines of the service's interface are not applied.
        """
        return self._transport.run(self._flows.infer(id, endpoint, body, token))


class Artifacts(Collection[OCIArtifact]):
    """Artifacts: what a client of registries pushes to `artifacts/<id>`."""

    def finalize(self, id: str) -> None:
        """Finish the push: the platform checks that all is there, and it never changes from then on."""
        self._transport.send(self._calls.finalize(id))


class Families(Collection[Family]):
    """Versions of one thing, as people see it."""

    def edit_members(self, id: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Set the entities of tags, such as `{"v1": {"entity": {"id": …, "kind": "Dataset"}}}`; None removes a tag.

        Return all members. Raises Invalid for an entity of another kind than the family's.
        """
        return self._transport.send(self._calls.edit_members(id, members))


class SafetyCases(Collection[SafetyCase]):
    """Pages with scores and curves that methods make."""

    def scores(self, id: str) -> list[Score]:
        """Return the scores of the safety case."""
        return self._transport.send(self._calls.scores(id))

    def curves(self, id: str) -> list[Curve]:
        """Return the curves of the safety case."""
        return self._transport.send(self._calls.curves(id))

    def query_scores(self, **filters: Any) -> Iterator[Score]:
        """Yield every score that matches, of all safety cases, page by page, those of the newest safety case first.

        Filters are `name`, `analysis`, `method`, `methodName`, `dataset`, `evaluation`, `inferenceService` and `model`;
        of a list, one must match. `limit` is the maximum number of scores. Raises Invalid for another filter.
        """
        pages = Pages(f"{self._calls.path}/scores", Score, filters, filters.pop("limit", None))
        while (call := pages.call()) is not None:
            yield from pages.take(self._transport.send(call))

    def query_curves(self, **filters: Any) -> Iterator[Curve]:
        """Yield every curve that matches, of all safety cases. The filters are those of `query_scores`."""
        pages = Pages(f"{self._calls.path}/curves", Curve, filters, filters.pop("limit", None))
        while (call := pages.call()) is not None:
            yield from pages.take(self._transport.send(call))


class PipelineRuns(Collection[PipelineRun]):
    """Runs of pipelines."""

    def create(
        self, request: Request = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> PipelineRun:
        """Run a pipeline: `create(account=…, pipeline=<id>, arguments={…})`. Raises Invalid, which names the field."""
        return self._transport.send(self._calls.run(request, fields, idempotency_key))

    def rerun(self, id: str, *, idempotency_key: str | None = None, **fields: Any) -> PipelineRun:
        """Run the pipeline again with the same arguments: `rerun(id, account=…)`, or of it some `steps=["node", …]`.

        What needs one of the steps runs again too. Of the others the new run keeps the workflows, which must have
        succeeded.
        """
        return self._transport.send(self._calls.rerun(id, fields, idempotency_key))

    def status(self, id: str) -> PipelineRunStatus:
        """Return the status of the run and of each of its workflows."""
        return self._transport.send(self._calls.run_status(id))

    def workflows(self, id: str) -> dict[str, Workflow]:
        """Return the workflows of the run, by the names of the pipeline's nodes."""
        return self._transport.send(self._calls.run_workflows(id))
