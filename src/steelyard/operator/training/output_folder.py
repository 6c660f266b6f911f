"""The folder that a job writes its output to: who writes it, where it is, and how its Pod gets it.

`replica.py` calls `mounted` for every Pod, `validate.py` `check`; `outputs.py` says what becomes of the files.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import labels
from steelyard.operator.training.frameworks.framework import Framework
from steelyard.operator.training.model import Invalid, Place, TrainingJob
from steelyard.types import Json

PATH = "/var/steelyard/output"
"""Where a program writes that was told nothing else. It always finds the folder in $STEELYARD_OUTPUT."""
VARIABLE = "STEELYARD_OUTPUT"
VOLUME = "steelyard-output"
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_IDENTITY = ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups")
WRITERS = ("chief", "master", "launcher", "worker")
"""In a job of a v1 kind, the type whose replica 0 writes the output: the first that the job has."""


@dataclass(frozen=True)
class Output:
    """What the job says of its output."""

    model: str
    """The Model's name, for people."""
    path: str
    place: Place
    """The replica that writes it."""
    register: Literal["Resource", "Platform"]
    """Who makes the Model: the operator, as a resource, or a client of the platform."""
    field: str
    """Where the job says so."""
    claim: str = ""
    """The claim that it is written to, where the template mounts none itself."""


def wanted(job: TrainingJob) -> Output | None:
    """The output that the job promises; None where it promises none."""
    register = cast(
        Literal["Resource", "Platform"], job.annotations.get(labels.OUTPUT_REGISTER, "Resource").capitalize()
    )
    claim = job.annotations.get(labels.OUTPUT_CLAIM, "")
    said = (job.spec.get("outputs") or {}).get("model")
    if said:
        path, place = said.get("path") or PATH, _writer(job, said.get("role"))
        return Output(said["name"], path, place, register, "spec.outputs.model", claim)
    name = job.annotations.get(labels.OUTPUT_MODEL)
    if not name:
        return None
    path = job.annotations.get(labels.OUTPUT_PATH, PATH)
    field = f"metadata.annotations[{labels.OUTPUT_MODEL}]"
    return Output(name, path, _writer(job, None), register, field, claim)


def _writer(job: TrainingJob, role: str | None) -> Place:
    """As the job says; else the first type that its success depends on, or of a v1 kind the one that leads."""
    if role is not None:
        return Place(role, 0)
    definition = job.framework.definition or {}
    policy = job.spec.get("successPolicy") or definition.get("successPolicy") or {}
    deciding = policy.get("roles") or () if isinstance(policy, dict) else ()
    by_name = {name.lower(): name for name in job.roles}
    leading = (by_name[each] for each in WRITERS if each in by_name and job.framework.definition is None)
    return Place((*deciding, *leading, *job.roles)[0], 0)


def check(job: TrainingJob, settings: OperatorSettings) -> None:
    """Raises Invalid for an output that could never become a Model."""
    output = wanted(job)
    if output is None:
        return
    if output.place.role not in job.roles:
        known = ", ".join(job.roles)
        raise Invalid(
            f"{output.field}.role", f"{output.place.role!r} is no role of the job; there are {known}"
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
            f"the template of {output.place.role} mounts no volume with a persistentVolumeClaim at {output.path}, "
            f"the annotation {labels.OUTPUT_CLAIM} names none, and the operator's setting training.outputs is empty: "
            "the output would be lost with its Pod"
        )
        raise Invalid(f"{output.field}.path", message)


def mounted(pod: Json, job: TrainingJob, place: Place) -> Json:
    """The Pod of a replica, with the output's folder where it is the one that writes it."""
    output = wanted(job)
    if output is None or output.place != place:
        return pod
    spec = pod["spec"]
    own = own_mount(job, output) is not None
    volume, mount = source(job, output)
    main = main_container(spec["containers"], job.framework)
    containers = [
        _with_folder(main, output, None if own else mount) if container is main and main else container
        for container in spec["containers"]
    ]
    volumes = list(spec.get("volumes") or ())
    if not own:
        volumes.append(volume)
    return {**pod, "spec": {**spec, "containers": containers, **({"volumes": volumes} if volumes else {})}}


def _with_folder(container: Json, output: Output, mount: Json | None) -> Json:
    """Returns the container with the folder in its environment; a variable that the user has set stays as it is."""
    env = list(container.get("env") or ())
    if all(each["name"] != VARIABLE for each in env):
        env.append({"name": VARIABLE, "value": output.path})
    mounts = list(container.get("volumeMounts") or ())
    if mount is not None:
        mounts.append(mount)
    return {**container, "env": env, "volumeMounts": mounts}


def source(job: TrainingJob, output: Output, existing: bool = False) -> tuple[Json, Json]:
    """The volume and its mount: the user's own, a folder of a claim, or on one machine a folder there.

    The folder is the job's own, which a later job of its name does not see. `existing`: it has been written already.
    """
    if found := own_mount(job, output):
        return found
    own, mount = f"{job.name}-{job.uid[:8]}", {"name": VOLUME, "mountPath": output.path}
    if output.claim:
        claim = {"name": VOLUME, "persistentVolumeClaim": {"claimName": output.claim}}
        return claim, {**mount, "subPath": own}
    path = f"{job.settings.outputs.rstrip('/')}/{job.namespace}/{own}"
    kind = "Directory" if existing else "DirectoryOrCreate"
    return {"name": VOLUME, "hostPath": {"path": path, "type": kind}}, mount


def reader(job: TrainingJob, output: Output) -> tuple[Json, Json]:
    """The security context of a Pod and of its container that read the output from a claim, beside the usual ones.

    The user whom the writer's template names reads what it wrote. Where it names none, its image does, which nobody
    here knows: then root reads, whom files of any user are open to, with that one capability. A template that forbids
    root without naming a user keeps the usual user; what that one may not read, the step names.
    """
    spec = job.roles[output.place.role].template.get("spec") or {}
    pod = spec.get("securityContext") or {}
    main = main_container(spec.get("containers") or [], job.framework) or {}
    said = {**pod, **(main.get("securityContext") or {})}
    known = {name: said[name] for name in _IDENTITY if said.get(name) is not None}
    if "runAsUser" in known:
        return {**known, "runAsNonRoot": known["runAsUser"] != 0}, {}
    if said.get("runAsNonRoot"):
        return known, {}
    return {**known, "runAsUser": 0, "runAsNonRoot": False}, {
        "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]}
    }


def own_mount(job: TrainingJob, output: Output) -> tuple[Json, Json] | None:
    """The user's own volume and where it is mounted, at the output's path or above it."""
    spec = job.roles[output.place.role].template.get("spec") or {}
    volumes = {each.get("name"): each for each in spec.get("volumes") or ()}
    main = main_container(spec.get("containers") or [], job.framework) or {}
    for mount in main.get("volumeMounts") or ():
        where = mount.get("mountPath") or ""
        below = os.path.isabs(where) and Path(output.path).is_relative_to(os.path.normpath(where))
        if below and "persistentVolumeClaim" in volumes.get(mount.get("name"), {}):
            return volumes[mount["name"]], mount
    return None


def main_container(containers: list[Json], framework: Framework) -> Json | None:
    """The container that writes the output: the one whose end decides."""
    named = (each for each in containers if each.get("name") == framework.container)
    return next(named, containers[0] if containers else None)
