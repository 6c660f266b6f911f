"""Makes an entity's custom resource, which holds everything that the operator needs. The orchestrator calls it.

Pure: the same entity always gives the same manifest, so that a resource deleted by hand is made again as it was.
"""

from collections.abc import Iterator

from steelyard.services.orchestrator.namespaces import ACCOUNT, label_value
from steelyard_common.types import Json
from steelyard_kube.resource import DYFF, Resource
from steelyard_schema.artifact_images import find_image, with_image
from steelyard_schema.audit import Audit
from steelyard_schema.base import DyffEntity
from steelyard_schema.data_source import file_patterns
from steelyard_schema.dataset import Dataset
from steelyard_schema.dependencies import (
    data_mounts,
    dependency_names,
    find_baseline,
    find_data_source,
    list_modules,
)
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.hosted_model import SPENDING, is_hosted
from steelyard_schema.inference_service import (
    ForeignInferenceService,
    InferenceService,
    InferenceServiceFields,
)
from steelyard_schema.inference_session import InferenceSession
from steelyard_schema.measurement import Measurement
from steelyard_schema.model import Model
from steelyard_schema.names import TRACE, account_namespace, place, resource_kind, resource_name
from steelyard_schema.report import Report
from steelyard_schema.resources import RESOURCES, ResourceSpec
from steelyard_schema.safety_case import SafetyCase
from steelyard_schema.secrets import list_needed_secrets, object_name
from steelyard_schema.status import WITH_WORKFLOW

ENTITY = "dyff.io/entity"
KIND = "dyff.io/kind"

CUSTOM: dict[str, Resource] = {kind.kind: kind for kind in DYFF}
"""The custom resources, by their own kinds."""
KUBE: dict[str, Resource] = {kind: CUSTOM[resource_kind(kind)] for kind in sorted(WITH_WORKFLOW)}
"""The custom resources, by the kinds of entities that have them."""

MOUNTABLE = ("Dataset", "Model", "Module")


class Unresolvable(Exception):
    """The entity can never become a resource; `reason` is the word of its status, the text names the field."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def manifest(entity: DyffEntity, secret: str | None = None, traceparent: str | None = None) -> Json:
    """The custom resource; `secret` holds the storage's credentials. Raises Unresolvable.

    `traceparent` is the span that the workflow's own belong to.
    """
    content = entity.dump()
    if (image := find_image(entity)) is not None:
        content = with_image(content, image)
    kind = content["kind"]
    return {
        "apiVersion": KUBE[kind].api_version,
        "kind": KUBE[kind].kind,
        "metadata": {
            "name": resource_name(kind, entity.id),
            "namespace": account_namespace(entity.account),
            "labels": {ENTITY: entity.id, KIND: kind, ACCOUNT: label_value(entity.account)},
            **({"annotations": {TRACE: traceparent}} if traceparent else {}),
        },
        "spec": {
            **{name: content[name] for name in _own_fields(KUBE[kind].kind) if name in content},
            **_source_fields(entity),
            "id": entity.id,
            "account": entity.account,
            "storage": _storage(entity, content, secret),
            **({"names": names} if (names := dependency_names(entity)) else {}),
            **({"secrets": secrets} if (secrets := _secrets(entity, kind)) else {}),
        },
    }


def _secrets(entity: DyffEntity, kind: str) -> dict[str, str]:
    """Return the names of the Kubernetes Secrets with what the workflow needs, which the orchestrator makes."""
    name = resource_name(kind, entity.id)
    return {purpose: object_name(name, purpose) for purpose in list_needed_secrets(entity)}


def check(entity: DyffEntity) -> None:
    """Raises Unresolvable, as `manifest` would."""
    _storage(entity, entity.dump(), None)


def _source_fields(entity: DyffEntity) -> Json:
    """Return what annotations say of the place that data is taken from: the published entities have no field for it."""
    fields: Json = {"dataSource": id} if (id := find_data_source(entity)) else {}
    return fields | ({"files": files} if (files := file_patterns(entity)) else {})


def _own_fields(resource: str) -> Iterator[str]:
    """The JSON names of the entity's immutable fields, as a kind of resource has them."""
    for name, field in RESOURCES[resource].spec.model_fields.items():
        if name not in ResourceSpec.model_fields and name not in ("storage", "secrets"):
            yield field.alias or name


def _storage(entity: DyffEntity, content: Json, secret: str | None) -> Json:
    storage: Json = {"inputs": _inputs(entity)}
    if not isinstance(entity, InferenceService | InferenceSession):
        storage["output"] = place(content["kind"], entity.id)
    if isinstance(entity, Model) and entity.storage:
        storage["medium"] = entity.storage.medium
    return storage | ({"secret": secret} if secret else {})


def _inputs(entity: DyffEntity) -> dict[str, str]:
    match entity:
        case Evaluation():
            service, own = entity.inferenceSession.inferenceService, entity.inferenceSessionReference is None
            mounted = _mount_locations(entity, service, "inferenceSession.inferenceService") if own else {}
            if "dataset" in mounted:
                field = "inferenceSession.inferenceService.runner.volumeMounts"
                raise Unresolvable(
                    "BadRequest", f"{field}: the name 'dataset' is the evaluation's own dataset's"
                )
            return {
                "dataset": place("Dataset", entity.dataset),
                **mounted,
                **(_spending(service) if own else {}),
            }
        case Dataset():
            if (source := find_data_source(entity)) is None:
                raise Unresolvable("DataSourceMissing", "dataSource: the dataset names no data source")
            return {"source": place("DataSource", source)}
        case InferenceSession():
            service = entity.inferenceService
            return _mount_locations(entity, service, "inferenceService") | _spending(service)
        case InferenceService():
            _check_image(entity, entity, "")
        case Model():
            return {"source": f"uploads/{entity.id}"} if entity.source.kind == "Upload" else {}
        case Report():
            own_inputs = {
                "dataset": place("Dataset", entity.dataset),
                "evaluation": place("Evaluation", entity.evaluation),
            }
            return own_inputs | {module: place("Module", module) for module in entity.modules}
        case Audit():
            reports = (
                precondition.id
                for precondition in entity.metadata.preconditions
                if precondition.kind == "Report"
            )
            inputs = {report: place("Report", report) for report in reports}
            baseline = find_baseline(entity)
            return inputs | ({"baseline": place("Audit", baseline)} if baseline else {})
        case Measurement() | SafetyCase():
            return _analysis_locations(entity)
    return {}


def _analysis_locations(analysis: Measurement | SafetyCase) -> dict[str, str]:
    """One location for each entity whose data the method reads, and for each module with its code, by their ids."""
    kinds = {definition.keyword: definition.kind for definition in analysis.method.inputs}
    inputs = {}
    for number, argument in enumerate(analysis.inputs):
        if argument.keyword not in kinds:
            field = f"inputs.{number}.keyword"
            raise Unresolvable("BadRequest", f"{field}: {argument.keyword!r} is not an input of the method")
        inputs[argument.entity] = place(kinds[argument.keyword], argument.entity)
    return inputs | {module: place("Module", module) for module in list_modules(analysis.method)}


def _spending(service: ForeignInferenceService) -> dict[str, str]:
    """Return where the ledger of a hosted model's service lies: all its sessions and evaluations share it."""
    hosted = service.runner is not None and is_hosted(service.runner.dump())
    return {SPENDING: place("InferenceService", service.id)} if hosted else {}


def _mount_locations(entity: DyffEntity, service: InferenceServiceFields, field: str) -> dict[str, str]:
    """One location for each data mount, by its name."""
    _check_image(entity, service, f"{field}.")
    inputs = {}
    for mount in data_mounts(service):
        assert mount.data  # the schema says so
        source, where = mount.data.source, f"{field}.runner.volumeMounts.{mount.name}"
        if source.kind not in MOUNTABLE:
            allowed = ", ".join(MOUNTABLE)
            raise Unresolvable(
                "BadRequest", f"{where}: a {source.kind} cannot be mounted; there are {allowed}"
            )
        if mount.name in inputs:
            raise Unresolvable("BadRequest", f"{where}: two mounts have this name")
        inputs[mount.name] = place(source.kind, source.id)
    return inputs


def _check_image(entity: DyffEntity, service: InferenceServiceFields, field: str) -> None:
    """Raise Unresolvable for an artifact whose image was not looked up with its service. A mock needs none."""
    reference = service.runner.imageRef if service.runner and service.runner.kind != "mock" else None
    if reference is not None and find_image(entity) is None:
        raise Unresolvable(
            "BadImage",
            f"{field}runner.imageRef: the image of {reference.kind} {reference.id} is not known; create the service "
            "again with the setting api.image_registry, or name an image by runner.image",
        )
