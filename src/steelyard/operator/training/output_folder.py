"""The folder that a job writes its output to: which replica writes it, where it is, and how the Pod gets it.

`replica_objects.py` calls `mounted` for every Pod, `dl_job.py` calls `check`; `outputs.py` copies the files.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import labels
from steelyard.operator.training.frameworks.framework import Framework
from steelyard.operator.training.model import Invalid, ReplicaId, TrainingJob
from steelyard_common.types import Json, mapping, sequence
from steelyard_kube.objects import read_spec

PATH = "/var/steelyard/output"
"""Default folder of the output. A program always finds the folder in $STEELYARD_OUTPUT."""
VARIABLE = "STEELYARD_OUTPUT"
VOLUME = "steelyard-output"
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_IDENTITY = ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups")
WRITERS = ("chief", "master", "launcher", "worker")
"""Types whose replica 0 writes the output of a job of a v1 kind: the first one that the job has."""


@dataclass(frozen=True)
class Output:
    """Output that a job promises."""

    model: str
    """Name of the Model, for people."""
    path: str
    replica_id: ReplicaId
    """Replica that writes the output."""
    register: Literal["Resource", "Platform"]
    """Creator of the Model: the operator (Resource), or a client of the platform (Platform)."""
    field: str
    """Field of the job that promises the output."""
    claim: str = ""
    """PersistentVolumeClaim for the output, if the template mounts none itself."""


def read_output(job: TrainingJob) -> Output | None:
    """Read the output that a job promises; None if it promises none."""
    register = cast(
        Literal["Resource", "Platform"], job.annotations.get(labels.OUTPUT_REGISTER, "Resource").capitalize()
    )
    claim = job.annotations.get(labels.OUTPUT_CLAIM, "")
    model = mapping(job.spec, "outputs").get("model")
    if model:
        path, replica_id = model.get("path") or PATH, _writer(job, model.get("role"))
        return Output(model["name"], path, replica_id, register, "spec.outputs.model", claim)
    name = job.annotations.get(labels.OUTPUT_MODEL)
    if not name:
        return None
    path = job.annotations.get(labels.OUTPUT_PATH, PATH)
    field = f"metadata.annotations[{labels.OUTPUT_MODEL}]"
    return Output(name, path, _writer(job, None), register, field, claim)


def _writer(job: TrainingJob, role: str | None) -> ReplicaId:
    """Return the replica that writes: the job's choice, else the first type that decides its success or leads it."""
    if role is not None:
        return ReplicaId(role, 0)
    definition = job.framework.definition or {}
    policy = job.spec.get("successPolicy") or definition.get("successPolicy") or {}
    deciding = sequence(policy, "roles")
    by_name = {name.lower(): name for name in job.roles}
    leading = (by_name[name] for name in WRITERS if name in by_name and job.framework.definition is None)
    return ReplicaId((*deciding, *leading, *job.roles)[0], 0)


def check(job: TrainingJob, settings: OperatorSettings) -> None:
    """Raise Invalid for an output that could never become a Model."""
    output = read_output(job)
    if output is None:
        return
    if output.replica_id.role not in job.roles:
        known = ", ".join(job.roles)
        raise Invalid(
            f"{output.field}.role", f"{output.replica_id.role!r} is not a role of the job; there are {known}"
        )
    if not os.path.isabs(output.path) or os.path.normpath(output.path) == "/":
        raise Invalid(f"{output.field}.path", f"{output.path!r} should be the absolute path of a folder")
    if output.register not in {"Resource", "Platform"}:
        field = f"metadata.annotations[{labels.OUTPUT_REGISTER}]"
        raise Invalid(field, f"{output.register!r} should be Resource or Platform")
    if not settings.storage:
        raise Invalid(
            output.field, "the operator's setting storage is empty: there is nowhere to keep a model"
        )
    if output.claim and not _CLAIM.fullmatch(output.claim):
        field = f"metadata.annotations[{labels.OUTPUT_CLAIM}]"
        raise Invalid(field, f"{output.claim!r} is not a valid name of a PersistentVolumeClaim")
    if own_mount(job, output) is None and not output.claim and not settings.training.outputs:
        message = (
            f"the template of {output.replica_id.role} mounts no volume with a persistentVolumeClaim at {output.path}, "
            f"the annotation {labels.OUTPUT_CLAIM} names none, and the operator's setting training.outputs is empty: "
            "the output would be lost with its Pod"
        )
        raise Invalid(f"{output.field}.path", message)


def mount_folder(pod: Json, job: TrainingJob, replica_id: ReplicaId) -> Json:
    """Give the Pod of the replica that writes the output its folder; other Pods stay as they are."""
    output = read_output(job)
    if output is None or output.replica_id != replica_id:
        return pod
    spec = pod["spec"]
    own = own_mount(job, output) is not None
    volume, mount = source(job, output)
    main = main_container(spec["containers"], job.framework)
    containers = [
        _with_folder(main, output, None if own else mount) if container is main and main else container
        for container in spec["containers"]
    ]
    volumes = list(sequence(spec, "volumes"))
    if not own:
        volumes.append(volume)
    return {**pod, "spec": {**spec, "containers": containers, **({"volumes": volumes} if volumes else {})}}


def _with_folder(container: Json, output: Output, mount: Json | None) -> Json:
    """Add the folder to a container and its environment; a variable that the user has set stays as it is."""
    env = list(sequence(container, "env"))
    # The user's value wins, as everywhere: a program may need another folder's name.
    if all(variable["name"] != VARIABLE for variable in env):
        env.append({"name": VARIABLE, "value": output.path})
    mounts = list(sequence(container, "volumeMounts"))
    if mount is not None:
        mounts.append(mount)
    return {**container, "env": env, "volumeMounts": mounts}


def source(job: TrainingJob, output: Output, existing: bool = False) -> tuple[Json, Json]:
    """Return the output's volume and its mount: the user's own, a folder of a claim, or a folder of the machine.

    The folder is this job's alone: a later job of its name does not see it. With `existing`, it must exist already.
    """
    if users := own_mount(job, output):
        return users
    # With the uid: a job of the same name that comes later must not find, and keep, this one's files.
    own, mount = f"{job.name}-{job.uid[:8]}", {"name": VOLUME, "mountPath": output.path}
    if output.claim:
        claim = {"name": VOLUME, "persistentVolumeClaim": {"claimName": output.claim}}
        return claim, {**mount, "subPath": own}
    path = f"{job.settings.outputs.rstrip('/')}/{job.namespace}/{own}"
    # The copying Job must fail on a machine that does not have the folder, not find a new, empty one.
    kind = "Directory" if existing else "DirectoryOrCreate"
    return {"name": VOLUME, "hostPath": {"path": path, "type": kind}}, mount


def reader(job: TrainingJob, output: Output) -> tuple[Json, Json]:
    """Return additions to the security contexts of a Pod, and of its container, that read the output from a claim.

    If the writer's template names a user, that user reads. If it names none, the user is that of an unknown image:
    then root reads, with the one capability to read files of any user. If the template forbids root without naming a
    user, the usual user reads, and the step reports files that it may not read.
    """
    spec = read_spec(job.roles[output.replica_id.role].template)
    pod = mapping(spec, "securityContext")
    main = main_container(sequence(spec, "containers"), job.framework) or {}
    context = {**pod, **mapping(main, "securityContext")}
    known = {name: context[name] for name in _IDENTITY if context.get(name) is not None}
    # The writer's own user can read its files, also with a mode that no other user can.
    if "runAsUser" in known:
        return {**known, "runAsNonRoot": known["runAsUser"] != 0}, {}
    if context.get("runAsNonRoot"):
        return known, {}
    return {**known, "runAsUser": 0, "runAsNonRoot": False}, {
        "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]}
    }


def own_mount(job: TrainingJob, output: Output) -> tuple[Json, Json] | None:
    """Return the user's own volume and mount at the output's path or above it, if there is one."""
    spec = read_spec(job.roles[output.replica_id.role].template)
    volumes = {volume.get("name"): volume for volume in sequence(spec, "volumes")}
    main = main_container(sequence(spec, "containers"), job.framework) or {}
    for mount in sequence(main, "volumeMounts"):
        where = mount.get("mountPath") or ""
        below = os.path.isabs(where) and Path(output.path).is_relative_to(os.path.normpath(where))
        if below and "persistentVolumeClaim" in volumes.get(mount.get("name"), {}):
            return volumes[mount["name"]], mount
    return None


def main_container(containers: list[Json], framework: Framework) -> Json | None:
    """Return the container that writes the output: the one whose end decides."""
    named = (container for container in containers if container.get("name") == framework.container)
    return next(named, containers[0] if containers else None)
