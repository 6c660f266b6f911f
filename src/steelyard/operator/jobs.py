"""The Job of a step, and the ConfigMap from which the step reads what to do."""

import json
from dataclasses import dataclass

from steelyard.operator.names import child_name, labels, owner_reference
from steelyard.operator.pods import (
    pod_template,
    secrets_volume,
    step_container,
    step_volumes,
    with_secrets,
)
from steelyard.operator.settings import OperatorSettings
from steelyard_common.types import Json, mapping
from steelyard_kube.times import parse_time
from steelyard_schema.egress import Purpose
from steelyard_schema.locations import complete_location
from steelyard_schema.steps import ResourceRef, StepConfig, epoch

PURPOSES: dict[str, Purpose] = {
    "fetch_data_source": "sources",
    "fetch_model": "sources",
    "hosted_model": "services",
}
"""Steps that call addresses outside, and the list of the settings that says which."""
SOURCE_STEPS = frozenset({"fetch_data_source", "ingest_dataset"})
"""Steps that take files of data sources, which may be many or large."""
HUB_STEPS = frozenset({"fetch_data_source", "fetch_model"})
"""Steps that fetch from the Hugging Face hub, or from its mirror."""


@dataclass(frozen=True)
class Step:
    """One step of a workflow: the middle part of its Jobs' names, its module, its longest time in seconds."""

    name: str
    module: str
    deadline: int
    replicas: str | None = None
    image: str | None = None
    """Image of the step's container; without it, that of all steps."""


def job_name(resource: Json, step: Step, attempt: int) -> str:
    return child_name(resource["metadata"]["name"], f"-{step.name}-a{attempt}")


def job_and_config(
    resource: Json, step: Step, attempt: int, seconds: int, settings: OperatorSettings
) -> tuple[Json, Json]:
    """Make the ConfigMap and the Job of an attempt, in the order in which they must be created."""
    metadata = child_metadata(resource, job_name(resource, step, attempt), step.name)
    container = step_container("step", step.module, settings, storage_secret(resource, settings))
    if step.image is not None:
        container = {**container, "image": step.image}
    volumes = step_volumes(metadata["name"])
    if settings.hub and step.module in HUB_STEPS:
        variable = {"name": "HF_ENDPOINT", "value": settings.hub}
        container = {**container, "env": [*container["env"], variable]}
    # The others are for the Pods of sessions: a step that asks a model has no use for its provider's key.
    if source := mapping(resource["spec"], "secrets").get("source"):
        container = with_secrets(container)
        volumes.append(secrets_volume({"source": source}))
    pull = mapping(resource["spec"], "secrets").get("imagePull") if step.image is not None else None
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            # Attempts are counted by the operator, which distinguishes a disruption from a failure; Kubernetes' Job
            # does not.
            "backoffLimit": 0,
            "activeDeadlineSeconds": max(1, seconds),
            "template": pod_template(
                metadata["labels"],
                [container],
                volumes,
                settings,
                pull_secrets=[pull] if pull else (),
                restartPolicy="Never",
            ),
        },
    }
    config = step_config(resource, step.module, settings, attempt=attempt, replicas=step.replicas)
    return config_map(metadata, config), job


def storage_secret(resource: Json, settings: OperatorSettings) -> str:
    """Name the Secret with which a resource's Pods open the storage: the resource's own, else that of the settings.

    Empty where they need none.
    """
    return mapping(resource["spec"], "storage").get("secret") or settings.storage_secret


def child_metadata(resource: Json, name: str, component: str) -> Json:
    return {
        "name": name,
        "namespace": resource["metadata"]["namespace"],
        "labels": labels(resource, component),
        "ownerReferences": [owner_reference(resource)],
    }


def config_map(metadata: Json, config: StepConfig) -> Json:
    values = config.model_dump(mode="json", exclude_none=True)
    # A ConfigMap holds 1 MiB: escapes of non-ASCII characters would make six bytes of two.
    content = json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.json": content}}


def step_config(
    resource: Json, module: str, settings: OperatorSettings, *, attempt: int = 1, replicas: str | None = None
) -> StepConfig:
    metadata = resource["metadata"]
    return StepConfig(
        step=module,
        attempt=attempt,
        # Grows with each attempt, and with a resource that is created again: a late attempt's writes lose.
        epoch=epoch(parse_time(metadata["creationTimestamp"]), metadata["uid"], attempt),
        resource=ResourceRef(
            kind=resource["kind"], namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"]
        ),
        spec=complete_spec(resource["spec"], settings.storage),
        replicas=replicas,
        egress=settings.egress.policy(PURPOSES[module]) if module in PURPOSES else None,
        limits=settings.data_sources if module in SOURCE_STEPS else None,
    )


def complete_spec(spec: Json, storage: str) -> Json:
    """Complete every storage location of a spec to a URL. Raises ValueError, which names the location."""
    locations = spec.get("storage")
    if not locations:
        return spec
    completed = dict(locations)
    if locations.get("inputs"):
        completed["inputs"] = {
            key: complete_location(location, storage) for key, location in locations["inputs"].items()
        }
    if locations.get("output"):
        completed["output"] = complete_location(locations["output"], storage)
    return {**spec, "storage": completed}
