"""What an entity needs before its workflow can begin, and what that means for those who wait.

The orchestrator waits for it; the API and the command line say how far it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.schema.audit import Audit
from steelyard.schema.base import DyffEntity
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.inference_service import InferenceService, InferenceServiceFields, VolumeMount
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.report import Report

BASELINE = "steelyard/baseline"
"""Annotation of an Audit: id of the earlier Audit that it is compared with."""


NAME = "steelyard/name-"
"""What an annotation begins with that says what the entity of a field is called: `steelyard/name-dataset`."""


@dataclass(frozen=True)
class Dependency:
    """An entity that must have succeeded first."""

    kind: str
    id: str


def dependencies(entity: DyffEntity) -> tuple[Dependency, ...]:
    """In the order in which they are named to those who wait; each once."""
    return tuple(dict.fromkeys(_dependencies(entity)))


def baseline_of(audit: DyffEntity) -> str | None:
    """Id of the earlier Audit that this one is compared with."""
    return next((each.value for each in audit.annotations if each.key == BASELINE), None)


def names_of(entity: DyffEntity) -> dict[str, str]:
    """What the entities that it refers to are called, by the field; as far as it says so."""
    told = (each for each in entity.annotations if each.key.startswith(NAME))
    return {each.key.removeprefix(NAME): each.value for each in told}


def naming(**names: str | None) -> list[dict[str, str]]:
    """Annotations that say what the entities of these fields are called."""
    return [{"key": f"{NAME}{field}", "value": name} for field, name in names.items() if name]


def data_mounts(service: InferenceServiceFields) -> tuple[VolumeMount, ...]:
    """The mounts of the service's runner that hold data."""
    mounts = (service.runner.volumeMounts if service.runner else None) or ()
    return tuple(mount for mount in mounts if mount.kind == "Data")


def _dependencies(entity: DyffEntity) -> Iterator[Dependency]:
    match entity:
        case InferenceService(model=model) if model is not None:
            yield Dependency("Model", model.id)
        case InferenceSession():
            yield Dependency("InferenceService", entity.inferenceService.id)
            yield from _mounted(entity.inferenceService)
        case Evaluation():
            yield Dependency("Dataset", entity.dataset)
            yield Dependency("InferenceService", entity.inferenceSession.inferenceService.id)
            if not entity.inferenceSessionReference:  # a session that runs has its files already
                yield from _mounted(entity.inferenceSession.inferenceService)
        case Report():
            yield Dependency("Evaluation", entity.evaluation)
            yield from (Dependency("Module", each) for each in entity.modules)
        case Audit():
            yield Dependency("AuditProcedure", entity.auditProcedure)
            yield Dependency("InferenceService", entity.inferenceService)
            if baseline := baseline_of(entity):
                yield Dependency("Audit", baseline)
    yield from (Dependency(each.kind, each.id) for each in entity.metadata.preconditions)


def _mounted(service: InferenceServiceFields) -> Iterator[Dependency]:
    for mount in data_mounts(service):
        if mount.data:
            yield Dependency(mount.data.source.kind, mount.data.source.id)
