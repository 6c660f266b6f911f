"""Datasets, modules and models from their create requests. Their files come later: `uploads.py`, or a workflow."""

from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity
from steelyard.api.entities.references import resolve
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard_schema.data_source import DataSource, pattern_notes
from steelyard_schema.dataset import ROWS, Dataset
from steelyard_schema.dependencies import DATA_SOURCE, naming
from steelyard_schema.entities import AnyEntity
from steelyard_schema.model import Model
from steelyard_schema.module import Module
from steelyard_schema.requests import DatasetOfSourceCreateRequest, ModelCreateRequest, ModuleCreateRequest

WAITING_FOR_UPLOAD = "WaitingForUpload"
_SOURCES = {"GitLFS": "gitLFS", "HuggingFaceHub": "huggingFaceHub", "OpenLLM": "openLLM"}


async def dataset(
    context: RequestContext, request: DatasetOfSourceCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    if request.dataSource is None:
        if request.schema_ is None:
            raise Invalid(
                "schema: is missing; only the rows of a dataSource are taken as they are", field="schema"
            )
        return [new.entity(Dataset, request, WAITING_FOR_UPLOAD)]
    source = await resolve(context, DataSource, request.dataSource, "dataSource")
    content = request.dump()
    for field in ("dataSource", "files"):
        content.pop(field, None)
    # The step writes one file of this name, and notes in its manifest the schema of rows that came without one.
    content["artifacts"] = [{"kind": "parquet", "path": ROWS}]
    content.setdefault("schema", {"arrowSchema": ""})
    content["annotations"] = [
        {"key": DATA_SOURCE, "value": source.id},
        *pattern_notes(request.files),
        *naming(dataSource=source.name),
    ]
    return [new.entity(Dataset, content)]


async def module(
    context: RequestContext, request: ModuleCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    return [new.entity(Module, request, WAITING_FOR_UPLOAD)]


async def model(context: RequestContext, request: ModelCreateRequest, new: NewEntity) -> Sequence[AnyEntity]:
    source, artifact = request.source, request.artifact
    field = _SOURCES.get(source.kind)
    if field is not None and getattr(source, field) is None:
        raise Invalid(f"source.{field}: is missing: source.kind is {source.kind}", field=f"source.{field}")
    if artifact.kind == "HuggingFaceCache" and artifact.huggingFaceCache is None:
        field = "artifact.huggingFaceCache"
        raise Invalid(f"{field}: is missing: artifact.kind is {artifact.kind}", field=field)
    if new.references and source.kind != "HuggingFaceHub":
        # The address of a git repository is the user's own, and a token would be sent wherever it points.
        raise Invalid(
            f"secrets.source: a source of kind {source.kind} takes no token; HuggingFaceHub does",
            field="secrets.source",
        )
    if source.kind != "Upload":
        return [new.entity(Model, request)]
    files = artifact.volume.files if artifact.kind == "Volume" and artifact.volume else []
    if not files:
        field = "artifact.volume.files"
        raise Invalid(
            f"{field}: should list the files that will be uploaded: source.kind is Upload", field=field
        )
    if len({file.path for file in files}) < len(files):
        raise Invalid("artifact.volume.files: a path is listed twice", field="artifact.volume.files")
    return [new.entity(Model, request, WAITING_FOR_UPLOAD)]
