"""Everything that a report or an audit was made from, as signed URLs: what a reader needs to check it elsewhere.

`downlinks` gives what an entity has brought about; this gives that and, below it, inputs, outputs and the records of
the run, laid out as `steelyard report verify` and `steelyard audit verify` read them:

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

from steelyard.api.datasets.downlinks import artifacts_of, link
from steelyard.api.entities.loading import load, load_other
from steelyard.api.http.context import Call, json_response
from steelyard.api.http.errors import Conflict, Forbidden, NotFound
from steelyard.schema.account import APIResource
from steelyard.schema.answers import ArtifactURL, EvidenceLinks, NotIncluded
from steelyard.schema.audit import Audit
from steelyard.schema.data import Artifact, Digest
from steelyard.schema.dependencies import baseline_of
from steelyard.schema.entities import AnyEntity
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.names import OWN_RECORDS, place
from steelyard.schema.report import Report
from steelyard.schema.status import SUCCESS

# A report reads these of an evaluation's own records; parts and checkpoints are no evidence.
_RECORDS = (f"{OWN_RECORDS}manifest.json", f"{OWN_RECORDS}run.json")
_ROW_ERRORS = f"{OWN_RECORDS}errors/"


async def evidence(call: Call) -> Response:
    """The files, and for each entity whose files are not among them the reason."""
    entity = await load(call)
    if entity.status not in SUCCESS:
        raise Conflict(f"status: {entity.kind} {entity.id} is {entity.status}: its files are not final")
    collected = _Collected(call)
    await collected.own(entity, "")
    if isinstance(entity, Report):
        await collected.origin(entity, "inputs/", "outputs/")
    elif isinstance(entity, Audit):
        for needed in entity.metadata.preconditions:
            if needed.kind == "Report":
                await collected.audited(needed.id)
        if baseline := baseline_of(entity):
            await collected.other("audits", baseline, "baseline/")
    answer = EvidenceLinks(files=collected.files, notIncluded=collected.not_included)
    return json_response(answer.dump_json().encode())


@dataclass
class _Collected:
    """Links to files by their paths in the reader's folder; each entity is asked for with its own grant."""

    call: Call
    files: list[ArtifactURL] = field(default_factory=list)
    not_included: list[NotIncluded] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    async def own(self, entity: AnyEntity, folder: str) -> None:
        """The files that `downlinks` names, and an evaluation's records."""
        artifacts = await artifacts_of(self.call, entity)
        if isinstance(entity, Evaluation):
            artifacts += [artifact async for artifact in self._records(entity)]
        for artifact in artifacts:
            signed = link(self.call, entity, artifact)
            inside = artifact.model_copy(update={"path": f"{folder}{artifact.path}"})
            self.files.append(signed.model_copy(update={"artifact": inside}))

    async def other(self, resource: APIResource, id: str, folder: str) -> AnyEntity | None:
        """The files of another entity; where the caller may not have them, why not."""
        if folder in self.seen:
            return None
        self.seen.add(folder)
        try:
            entity = await load_other(self.call, resource, id)
        except (Conflict, Forbidden, NotFound) as error:
            self.not_included.append(NotIncluded(path=folder, reason=error.detail))
            return None
        if entity.status == "Deleted":
            self.not_included.append(NotIncluded(path=folder, reason=f"{entity.kind} {id} is Deleted"))
            return None
        await self.own(entity, folder)
        return entity

    async def origin(self, report: Report, inputs: str, outputs: str) -> None:
        """The files of the dataset and of the evaluation that a report was made from."""
        await self.other("datasets", report.dataset, inputs)
        await self.other("evaluations", report.evaluation, outputs)

    async def audited(self, id: str) -> None:
        report = await self.other("reports", id, f"reports/{id}/")
        if isinstance(report, Report):
            await self.origin(report, f"datasets/{report.dataset}/", f"evaluations/{report.evaluation}/")

    async def _records(self, entity: Evaluation) -> AsyncIterator[Artifact]:
        prefix = f"{place(entity.kind, entity.id)}/"
        async for info in self.call.api.platform.store.list(f"{prefix}{OWN_RECORDS}"):
            path = info.key.removeprefix(prefix)
            if path in _RECORDS or path.startswith(_ROW_ERRORS):
                yield Artifact(kind=path.rpartition(".")[2], path=path, digest=Digest(md5=None))
