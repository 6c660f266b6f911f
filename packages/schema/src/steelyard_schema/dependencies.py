"""Dependencies of an entity: what must have succeeded before its workflow can begin. The orchestrator waits for it; the
API and the command line show how far it is."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from steelyard_schema.audit import Audit
from steelyard_schema.base import LABEL_KEY_PATTERN, Annotation, DyffEntity
from steelyard_schema.data_source import UPLOAD, DataSource
from steelyard_schema.dataset import Dataset
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.inference_service import InferenceService, InferenceServiceFields, VolumeMount
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.measurement import Measurement
from steelyard_schema.method import Method, MethodFields
from steelyard_schema.pipeline_run import PipelineRun
from steelyard_schema.report import Report
from steelyard_schema.safety_case import SafetyCase
from steelyard_schema.status import WITH_WORKFLOW

BASELINE = "steelyard/baseline"
"""Annotation of an Audit: id of the earlier Audit that it is compared with."""

DATA_SOURCE = "steelyard/data-source"
"""Annotation of a Dataset: id of the DataSource that its rows are made from."""

TAG = "steelyard/tag-"
"""Beginning of an annotation with the reference that a field was asked for by: `steelyard/tag-dataset`."""
NAME = "steelyard/name-"
"""Beginning of an annotation with the name of the entity that a field refers to: `steelyard/name-dataset`."""


@dataclass(frozen=True)
class Dependency:
    """An entity that must have succeeded before another one's workflow begins."""

    kind: str
    id: str


def dependencies(entity: DyffEntity) -> tuple[Dependency, ...]:
    """Return the dependencies, each once, in the order in which they are shown to users."""
    return tuple(dict.fromkeys((*_origin(entity), *_dependencies(entity))))


def find_baseline(audit: DyffEntity) -> str | None:
    """Return the id of the earlier Audit that an audit is compared with, or None."""
    return next((note.value for note in audit.annotations if note.key == BASELINE), None)


def find_data_source(dataset: DyffEntity) -> str | None:
    """Return the id of the DataSource that a dataset is made from, or None for one that was uploaded."""
    return next((note.value for note in dataset.annotations if note.key == DATA_SOURCE), None)


def has_workflow(entity: DyffEntity) -> bool:
    """Return whether something runs for an entity: not for a dataset, or a data source, that a client uploads."""
    if isinstance(entity, Dataset):
        return find_data_source(entity) is not None
    if isinstance(entity, DataSource):
        return entity.sourceKind != UPLOAD
    return entity.dump()["kind"] in WITH_WORKFLOW


def dependency_names(entity: DyffEntity) -> dict[str, str]:
    """Return the names of the entities that an entity refers to, by field, as far as annotations give them."""
    notes = (note for note in entity.annotations if note.key.startswith(NAME))
    return {note.key.removeprefix(NAME): note.value for note in notes}


def tag_notes(tags: Mapping[str, str]) -> list[Annotation]:
    """Return annotations with the tags by which fields were asked for: a tag may go to another entity later."""
    keys = {f"{TAG}{field.replace('.', '-')}": tag for field, tag in tags.items()}
    return [
        Annotation(key=key, value=tag) for key, tag in keys.items() if re.fullmatch(LABEL_KEY_PATTERN, key)
    ]


def naming(**names: str | None) -> list[dict[str, str]]:
    """Return annotations with the names of the entities that fields refer to."""
    return [{"key": f"{NAME}{field}", "value": name} for field, name in names.items() if name]


def data_mounts(service: InferenceServiceFields) -> tuple[VolumeMount, ...]:
    """Return the mounts of the service's runner that hold data."""
    mounts = (service.runner.volumeMounts if service.runner else None) or ()
    return tuple(mount for mount in mounts if mount.kind == "Data")


def list_modules(method: MethodFields) -> tuple[str, ...]:
    """Return the ids of the modules that hold a method's code, each once; the notebook's module is the last."""
    notebook = method.implementation.jupyterNotebook
    return tuple(dict.fromkeys((*method.modules, *((notebook.notebookModule,) if notebook else ()))))


def _origin(entity: DyffEntity) -> Iterator[Dependency]:
    if isinstance(entity, Dataset) and (source := find_data_source(entity)):
        yield Dependency("DataSource", source)


def _dependencies(entity: DyffEntity) -> Iterator[Dependency]:
    match entity:
        case InferenceService(model=model) if model is not None:
            yield Dependency("Model", model.id)
        case InferenceSession():
            yield Dependency("InferenceService", entity.inferenceService.id)
            yield from _mount_dependencies(entity.inferenceService)
        case Evaluation():
            yield Dependency("Dataset", entity.dataset)
            yield Dependency("InferenceService", entity.inferenceSession.inferenceService.id)
            if not entity.inferenceSessionReference:  # a session that runs has its files already
                yield from _mount_dependencies(entity.inferenceSession.inferenceService)
        case Report():
            yield Dependency("Evaluation", entity.evaluation)
            yield from (Dependency("Module", module) for module in entity.modules)
        case Audit():
            yield Dependency("AuditProcedure", entity.auditProcedure)
            yield Dependency("InferenceService", entity.inferenceService)
            if baseline := find_baseline(entity):
                yield Dependency("Audit", baseline)
        case Measurement() | SafetyCase():
            yield Dependency("Method", entity.method.id)
            kinds = {definition.keyword: definition.kind for definition in entity.method.inputs}
            yield from (
                Dependency(kinds.get(argument.keyword, "Entity"), argument.entity)
                for argument in entity.inputs
            )
            # A method is ready at once, although its modules may still be uploaded.
            yield from (Dependency("Module", module) for module in list_modules(entity.method))
        case Method():
            yield from (Dependency("Module", module) for module in list_modules(entity))
        case PipelineRun():
            yield Dependency("Pipeline", entity.pipeline)
    yield from (Dependency(other.kind, other.id) for other in entity.metadata.preconditions)


def _mount_dependencies(service: InferenceServiceFields) -> Iterator[Dependency]:
    for mount in data_mounts(service):
        if mount.data:
            yield Dependency(mount.data.source.kind, mount.data.source.id)
