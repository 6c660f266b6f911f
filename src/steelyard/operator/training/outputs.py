"""Output of a job that has succeeded: files in storage with their digests, then a Model.

First a batch Job copies the files to storage; its termination message, with the digests, is written to
`status.outputs`; then the Model is created. The Model is not the job's child: it stays when the job is deleted.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from steelyard.operator.children import Children, job_outcome, live, termination_message
from steelyard.operator.jobs import Step, job_and_config, job_name
from steelyard.operator.names import ENTITY, OWNER
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import labels
from steelyard.operator.training.model import TrainingJob
from steelyard.operator.training.output_folder import (
    VOLUME,
    Output,
    main_container,
    read_output,
    reader,
)
from steelyard.operator.training.output_folder import source as source_of
from steelyard_common.types import Json, mapping
from steelyard_kube.pods import container_statuses, find_end
from steelyard_schema.names import place as location_of
from steelyard_schema.names import resource_name

MEBIBYTE = 1 << 20
CARRYING = "the output is being copied to storage"


@dataclass(frozen=True)
class OutputProgress:
    """Decision about a job's output: `status` is the new `status.outputs`."""

    status: Json
    create: tuple[Json, ...] = ()
    requeue_at: datetime | None = None

    @property
    def pending(self) -> bool:
        """Return whether the job is still needed, so that its time to live must not end it."""
        return self.status["state"] in {"Carrying", "Carried"}


def reconcile_output(
    job: TrainingJob, children: Children, now: datetime, settings: OperatorSettings
) -> OutputProgress | None:
    """Decide about the output of a job that has succeeded; None if the job has promised none."""
    output = read_output(job)
    if output is None:
        return None
    status: Json = dict(mapping(job.resource, "status", "outputs"))
    match status.get("state"):
        case None | "Carrying":
            return _carrying(job, output, children, now, settings)
        # Its own state before the Model is created: an operator that dies in between creates the same Model again, by
        # its id.
        case "Carried" if output.register == "Resource":
            created = model(job, output, status)
            message = f"Model {created['metadata']['name']}"
            return OutputProgress({**status, "state": "Registered", "message": message}, create=(created,))
        case _:  # final; or a client of the platform will register the Model
            return OutputProgress(status)


def _carrying(
    job: TrainingJob, output: Output, children: Children, now: datetime, settings: OperatorSettings
) -> OutputProgress:
    """Follow the batch Job that copies the files; its termination message has the digests."""
    source = _source(job, output, children)
    status: Json = {"model": output.model, "location": source["spec"]["storage"]["output"]}
    digests = {"spec": source["spec"]["lineage"]["spec"]}
    status["digests"] = digests
    carrier = children.find("Job", job_name(source, _step(settings), 1))
    outcome = job_outcome(carrier, children, now, settings)
    if carrier is None:
        objects = _carrier(source, job, output, settings)
        return OutputProgress({**status, "state": "Carrying", "message": CARRYING}, objects)
    if outcome.state == "succeeded":
        report = _step_report(carrier, children)
        digests |= {name: report[name] for name in ("output", "code", "data") if name in report}
        status |= {name: report[name] for name in ("files", "bytes") if name in report}
        return OutputProgress({**status, "state": "Carried", "message": "the output is in storage"})
    # The batch Job repeats by itself (backoffLimit); only its own end, or a failure that no repeat mends, counts.
    if outcome.state == "failed" and (outcome.permanent or not live(carrier)):
        message = f"{outcome.code}: {outcome.message}".removeprefix(": ")
        return OutputProgress({**status, "state": "Failed", "message": message})
    message = outcome.message or CARRYING
    return OutputProgress({**status, "state": "Carrying", "message": message}, requeue_at=outcome.requeue_at)


def _step(settings: OperatorSettings) -> Step:
    return Step("output", "carry_output", settings.step_deadline_seconds)


def _source(job: TrainingJob, output: Output, children: Children) -> Json:
    """Make a resource of the job's name whose spec has only what the step needs."""
    spec: Json = {
        "id": model_id(job),
        "path": output.path,
        "lineage": lineage(job, output, children),
        "storage": {"output": location_of("Training", job.uid)},
    }
    if job.settings.storage_secret:
        spec["storage"]["secret"] = job.settings.storage_secret
    return {**job.resource, "spec": spec}


def _carrier(source: Json, job: TrainingJob, output: Output, settings: OperatorSettings) -> tuple[Json, ...]:
    step = _step(settings)
    config, carrier = job_and_config(source, step, 1, step.deadline, settings)
    # Attempts are Kubernetes' own here: the training job's status has no place to count them.
    carrier["spec"]["backoffLimit"] = settings.max_attempts - 1
    pod = carrier["spec"]["template"]["spec"]
    volume, mount = source_of(job, output, existing=True)
    pod["volumes"] = [*pod["volumes"], {**volume, "name": VOLUME}]
    (container,) = pod["containers"]
    mounts = [*container["volumeMounts"], {**mount, "name": VOLUME, "readOnly": True}]
    pod["containers"] = [container := {**container, "volumeMounts": mounts}]
    if (
        "persistentVolumeClaim" in volume
    ):  # on one machine everything runs as one user, who can read the files
        pod_security, container_security = reader(job, output)
        pod["securityContext"] = {**pod["securityContext"], **pod_security}
        container["securityContext"] = {**container["securityContext"], **container_security}
    return config, carrier


def lineage(job: TrainingJob, output: Output, children: Children) -> dict[str, str]:
    """Describe for the manifest how the output was made: job, digest of its spec, image of its program."""
    text = json.dumps(job.spec, sort_keys=True, separators=(",", ":"))
    fields = {
        "from": job.kind,
        "job": f"{job.namespace}/{job.name}",
        "uid": job.uid,
        "spec": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
        **_image(job, output, children),
    }
    annotations = {"code": labels.CODE_DIGEST, "data": labels.DATA_DIGEST}
    return fields | {
        key: job.annotations[name] for key, name in annotations.items() if name in job.annotations
    }


def _image(job: TrainingJob, output: Output, children: Children) -> Mapping[str, str]:
    name = job.replica_name(output.replica_id)
    for pod in (pod for pod in children.pods if pod["metadata"]["name"] == name):
        main = main_container(container_statuses(pod), job.framework)
        if main and main.get("imageID"):
            return {"image": str(main["imageID"])}
    return {}


def _step_report(carrier: Json, children: Children) -> Json:
    """Read what the step reported at its end; empty if its Pod is gone (the manifest in storage has it all)."""
    for pod in children.list_pods(carrier):
        for container in container_statuses(pod):
            terminated = find_end(container)
            # Of several Pods of the Job, the one that succeeded has the digests.
            if terminated and not terminated.get("exitCode"):
                try:
                    report = json.loads(termination_message(terminated)[1])
                except ValueError:
                    continue
                return report if isinstance(report, dict) else {}
    return {}


def model_id(job: TrainingJob) -> str:
    """Derive the Model's id from the job, so that a repeated creation makes no second Model."""
    return hashlib.sha256(f"{job.uid}/output".encode()).hexdigest()[:32]


def model(job: TrainingJob, output: Output, status: Json) -> Json:
    """Make the Model of the job's output. It has no owner, so that it stays when the job is deleted."""
    id = model_id(job)
    mebibytes = max(1, -(-int(status.get("bytes") or 0) // MEBIBYTE))
    storage: Json = {"inputs": {"source": status["location"]}, "output": location_of("Model", id)}
    if job.settings.storage_secret:
        storage["secret"] = job.settings.storage_secret
    spec = {
        "id": id,
        "account": job.namespace,
        "name": output.model,
        "artifact": {"kind": "Volume", "volume": {"files": []}},
        "source": {"kind": "Upload"},
        "resources": {"storage": f"{mebibytes}Mi"},
        "storage": storage,
    }
    metadata = {
        "name": resource_name("Model", id),
        "namespace": job.namespace,
        # A label in place of an owner reference: the garbage collector would delete the Model with the job.
        "labels": {ENTITY: id, OWNER: job.uid},
        "annotations": {labels.FROM_JOB: f"{job.kind}/{job.name}"},
    }
    return {"apiVersion": "dyff.io/v1alpha1", "kind": "Model", "metadata": metadata, "spec": spec}
