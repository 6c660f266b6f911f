"""Signed URLs of everything that a report or an audit was made from: what a reader needs to check it elsewhere.

`downlinks` has the entity's own files; this adds inputs, outputs and the records of the run, laid out as `steelyard
report verify` and `steelyard audit verify` read them:

    report.html …                       the report's own files
    inputs/, outputs/                   its dataset; its evaluation's output with `.steelyard/`

    index.html, audit.json …            the audit's own files
    reports/<id>/                       the files of each report
    datasets/<id>/, evaluations/<id>/   what the reports were made from, each once
    baseline/                           the earlier audit's own files
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from starlette.responses import Response

from steelyard.api.datasets.downlinks import check_final, link, list_artifacts
from steelyard.api.entities.loading import load, load_other
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden, NotFound
from steelyard.api.http.responses import model_response
from steelyard_schema.account import APIResource
from steelyard_schema.answers import ArtifactURL, EvidenceLinks, NotIncluded
from steelyard_schema.audit import Audit
from steelyard_schema.data import Artifact, Digest
from steelyard_schema.dependencies import find_baseline
from steelyard_schema.entities import AnyEntity
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.names import OWN_RECORDS, place
from steelyard_schema.report import Report

# Records of an evaluation that a report reads; parts and checkpoints are no evidence.
_RECORDS = (f"{OWN_RECORDS}manifest.json", f"{OWN_RECORDS}run.json")
_FOLDERS = (f"{OWN_RECORDS}errors/", f"{OWN_RECORDS}servers/")


async def evidence(context: RequestContext) -> Response:
    """Signed URLs of all files, and for each folder that is not included the reason."""
    entity = await load(context)
    check_final(context, entity)
    collector = _EvidenceCollector(context)
    await collector.own(entity, "")
    if isinstance(entity, Report):
        await collector.origin(entity, "inputs/", "outputs/")
    elif isinstance(entity, Audit):
        for dependency in entity.metadata.preconditions:
            if dependency.kind == "Report":
                await collector.add_report(dependency.id)
        if baseline := find_baseline(entity):
            await collector.add_entity("audits", baseline, "baseline/")
    return model_response(EvidenceLinks(files=collector.files, notIncluded=collector.not_included))


@dataclass
class _EvidenceCollector:
    """Collects links to files by their paths in the reader's folder. The caller needs a grant for each entity."""

    context: RequestContext
    files: list[ArtifactURL] = field(default_factory=list)
    not_included: list[NotIncluded] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)

    async def own(self, entity: AnyEntity, folder: str) -> None:
        """Add the files that `downlinks` has, and an evaluation's records."""
        artifacts = await list_artifacts(self.context, entity)
        if isinstance(entity, Evaluation):
            artifacts += [artifact async for artifact in self._records(entity)]
        for artifact in artifacts:
            signed = await link(self.context, entity, artifact)
            inside = artifact.model_copy(update={"path": f"{folder}{artifact.path}"})
            self.files.append(signed.model_copy(update={"artifact": inside}))

    async def add_entity(self, resource: APIResource, id: str, folder: str) -> AnyEntity | None:
        """Add the files of another entity; if the caller may not read them, the reason. A folder is added once."""
        if folder in self.folders:
            return None
        self.folders.add(folder)
        try:
            entity = await load_other(self.context, resource, id)
        except (Conflict, Forbidden, NotFound) as error:
            self.not_included.append(NotIncluded(path=folder, reason=error.detail))
            return None
        if entity.status == "Deleted":
            self.not_included.append(NotIncluded(path=folder, reason=f"{entity.kind} {id} is Deleted"))
            return None
        await self.own(entity, folder)
        return entity

    async def origin(self, report: Report, inputs: str, outputs: str) -> None:
        """Add the files of a report's dataset and evaluation."""
        await self.add_entity("datasets", report.dataset, inputs)
        await self.add_entity("evaluations", report.evaluation, outputs)

    async def add_report(self, id: str) -> None:
        """Add the files of one of an audit's reports, and those it was made from."""
        report = await self.add_entity("reports", id, f"reports/{id}/")
        if isinstance(report, Report):
            await self.origin(report, f"datasets/{report.dataset}/", f"evaluations/{report.evaluation}/")

    async def _records(self, entity: Evaluation) -> AsyncIterator[Artifact]:
        prefix = f"{place(entity.kind, entity.id)}/"
        async for info in self.context.api.platform.store.list(f"{prefix}{OWN_RECORDS}"):
            path = info.key.removeprefix(prefix)
            if path in _RECORDS or path.startswith(_FOLDERS):
                yield Artifact(kind=path.rpartition(".")[2], path=path, digest=Digest(md5=None))
