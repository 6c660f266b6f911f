"""What becomes of the output of a job that has succeeded: files in storage with their digests, then a Model.

First a Job carries the files away; its last words, with the digests, are written to `status.outputs`; then the Model
is made. It is not the job's child: it stays when the job goes.
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
    reader,
    wanted,
)
from steelyard.operator.training.output_folder import source as source_of
from steelyard.schema.names import place as location_of
from steelyard.schema.names import resource_name
from steelyard.types import Json

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Following:
    """What should follow the success of a job: `status` is all of `status.outputs`."""

    status: Json
    create: tuple[Json, ...] = ()
    requeue_at: datetime | None = None

    @property
    def pending(self) -> bool:
        """Whether the job is still needed: its TTL waits."""
        return self.status["state"] in {"Carrying", "Carried"}


def after(
    job: TrainingJob, children: Children, now: datetime, settings: OperatorSettings
) -> Following | None:
    """What should follow the job's success; None where it promised no output."""
    output = wanted(job)
    if output is None:
        return None
    status: Json = dict((job.resource.get("status") or {}).get("outputs") or {})
    match status.get("state"):
        case None | "Carrying":
            return _carrying(job, output, children, now, settings)
        case "Carried" if output.register == "Resource":
            made = model(job, output, status)
            told = f"Model {made['metadata']['name']}"
            return Following({**status, "state": "Registered", "message": told}, create=(made,))
        case _:  # registered, failed, or for a client of the platform to register: it stays as it is
            return Following(status)


def _carrying(
    job: TrainingJob, output: Output, children: Children, now: datetime, settings: OperatorSettings
) -> Following:
    """The Job that carries the files away, until it has ended; its last words have the digests."""
    source = _source(job, output, children)
    status: Json = {"model": output.model, "location": source["spec"]["storage"]["output"]}
    digests = {"spec": source["spec"]["lineage"]["spec"]}
    status["digests"] = digests
    carrier = children.named("Job", job_name(source, _step(settings), 1))
    outcome = job_outcome(carrier, children, now, settings)
    if carrier is None:
        made = _job(source, job, output, settings)
        return Following({**status, "state": "Carrying", "message": "the output is carried to storage"}, made)
    if outcome.state == "succeeded":
        said = _said(carrier, children)
        digests |= {each: said[each] for each in ("output", "code", "data") if each in said}
        status |= {each: said[each] for each in ("files", "bytes") if each in said}
        return Following({**status, "state": "Carried", "message": "the output is in storage"})
    if outcome.state == "failed" and (outcome.permanent or not live(carrier)):
        message = f"{outcome.code}: {outcome.message}".removeprefix(": ")
        return Following({**status, "state": "Failed", "message": message})
    told = outcome.message or "the output is carried to storage"
    return Following({**status, "state": "Carrying", "message": told}, requeue_at=outcome.requeue_at)


def _step(settings: OperatorSettings) -> Step:
    return Step("output", "carry_output", settings.step_deadline_seconds)


def _source(job: TrainingJob, output: Output, children: Children) -> Json:
    """The job as what a step works for: its configuration has only what the step needs."""
    spec: Json = {
        "id": model_id(job),
        "path": output.path,
        "lineage": lineage(job, output, children),
        "storage": {"output": location_of("Training", job.uid)},
    }
    if job.settings.storage_secret:
        spec["storage"]["secret"] = job.settings.storage_secret
    return {**job.resource, "spec": spec}


def _job(source: Json, job: TrainingJob, output: Output, settings: OperatorSettings) -> tuple[Json, ...]:
    step = _step(settings)
    config, carrier = job_and_config(source, step, 1, step.deadline, settings)
    carrier["spec"]["backoffLimit"] = settings.max_attempts - 1
    pod = carrier["spec"]["template"]["spec"]
    volume, mount = source_of(job, output, existing=True)
    pod["volumes"] = [*pod["volumes"], {**volume, "name": VOLUME}]
    (container,) = pod["containers"]
    mounts = [*container["volumeMounts"], {**mount, "name": VOLUME, "readOnly": True}]
    pod["containers"] = [container := {**container, "volumeMounts": mounts}]
    if "persistentVolumeClaim" in volume:  # on one machine everything runs as one user
        whole, own = reader(job, output)
        pod["securityContext"] = {**pod["securityContext"], **whole}
        container["securityContext"] = {**container["securityContext"], **own}
    return config, carrier


def lineage(job: TrainingJob, output: Output, children: Children) -> dict[str, str]:
    """How the output came about, for its manifest: the job, the digest of its spec, the image that ran."""
    text = json.dumps(job.spec, sort_keys=True, separators=(",", ":"))
    found = {
        "from": job.kind,
        "job": f"{job.namespace}/{job.name}",
        "uid": job.uid,
        "spec": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
        **_image(job, output, children),
    }
    given = {"code": labels.CODE_DIGEST, "data": labels.DATA_DIGEST}
    return found | {key: job.annotations[name] for key, name in given.items() if name in job.annotations}


def _image(job: TrainingJob, output: Output, children: Children) -> Mapping[str, str]:
    name = job.replica_name(output.place)
    for pod in (each for each in children.pods if each["metadata"]["name"] == name):
        main = main_container((pod.get("status") or {}).get("containerStatuses") or [], job.framework)
        if main and main.get("imageID"):
            return {"image": str(main["imageID"])}
    return {}


def _said(carrier: Json, children: Children) -> Json:
    """What the step said at its end; nothing where its Pod is gone: the manifest in storage has it all."""
    for pod in children.pods_of(carrier):
        for each in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (each.get("state") or {}).get("terminated")
            if ended and not ended.get("exitCode"):
                try:
                    said = json.loads(termination_message(ended)[1])
                except ValueError:
                    continue
                return said if isinstance(said, dict) else {}
    return {}


def model_id(job: TrainingJob) -> str:
    """One job makes one Model, however often it is asked for."""
    return hashlib.sha256(f"{job.uid}/output".encode()).hexdigest()[:32]


def model(job: TrainingJob, output: Output, status: Json) -> Json:
    """The Model of the job's output. No owner: the job may be deleted, the Model stays."""
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
        "labels": {ENTITY: id, OWNER: job.uid},
        "annotations": {labels.FROM_JOB: f"{job.kind}/{job.name}"},
    }
    return {"apiVersion": "dyff.io/v1alpha1", "kind": "Model", "metadata": metadata, "spec": spec}
