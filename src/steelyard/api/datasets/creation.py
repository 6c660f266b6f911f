"""Datasets, modules and models from their create requests. Their files come later: `uploads.py`."""

from collections.abc import Sequence

from steelyard.api.entities.creation import NewEntity
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard.schema.dataset import Dataset
from steelyard.schema.entities import AnyEntity
from steelyard.schema.model import Model
from steelyard.schema.module import Module
from steelyard.schema.requests import DatasetCreateRequest, ModelCreateRequest, ModuleCreateRequest

WAITING_FOR_UPLOAD = "WaitingForUpload"
_SOURCES = {"GitLFS": "gitLFS", "HuggingFaceHub": "huggingFaceHub", "OpenLLM": "openLLM"}


async def dataset(
    context: RequestContext, request: DatasetCreateRequest, new: NewEntity
) -> Sequence[AnyEntity]:
    return [new.entity(Dataset, request, WAITING_FOR_UPLOAD)]


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
