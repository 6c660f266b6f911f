"""Datasets, modules and models: what their create requests have to hold. Their files: `uploads.py`."""

from collections.abc import Sequence

from steelyard.api.entities.creation import Base
from steelyard.api.http.context import Call
from steelyard.api.http.errors import Invalid
from steelyard.schema.dataset import Dataset
from steelyard.schema.entities import AnyEntity
from steelyard.schema.model import Model
from steelyard.schema.module import Module
from steelyard.schema.requests import DatasetCreateRequest, ModelCreateRequest, ModuleCreateRequest

WAITING = "WaitingForUpload"
_SOURCES = {"GitLFS": "gitLFS", "HuggingFaceHub": "huggingFaceHub", "OpenLLM": "openLLM"}


async def dataset(call: Call, request: DatasetCreateRequest, base: Base) -> Sequence[AnyEntity]:
    return [base.entity(Dataset, request, WAITING)]


async def module(call: Call, request: ModuleCreateRequest, base: Base) -> Sequence[AnyEntity]:
    return [base.entity(Module, request, WAITING)]


async def model(call: Call, request: ModelCreateRequest, base: Base) -> Sequence[AnyEntity]:
    source, artifact = request.source, request.artifact
    needed = _SOURCES.get(source.kind)
    if needed is not None and getattr(source, needed) is None:
        raise Invalid(f"source.{needed}: is missing: source.kind is {source.kind}", field=f"source.{needed}")
    if artifact.kind == "HuggingFaceCache" and artifact.huggingFaceCache is None:
        field = "artifact.huggingFaceCache"
        raise Invalid(f"{field}: is missing: artifact.kind is {artifact.kind}", field=field)
    if source.kind != "Upload":
        return [base.entity(Model, request)]
    files = artifact.volume.files if artifact.kind == "Volume" and artifact.volume else []
    if not files:
        field = "artifact.volume.files"
        raise Invalid(
            f"{field}: should list the files that will be uploaded: source.kind is Upload", field=field
        )
    if len({file.path for file in files}) < len(files):
        raise Invalid("artifact.volume.files: a path is there twice", field="artifact.volume.files")
    return [base.entity(Model, request, WAITING)]
