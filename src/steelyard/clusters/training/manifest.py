"""The manifest of a training job: from what a person asks for to a resource of the framework's kind."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from steelyard.clusters.names import MAX_NUMBER, NAME_LIMIT, RESTART_SCOPE
from steelyard.clusters.training.errors import BadJob
from steelyard.clusters.training.frameworks import TrainingFramework
from steelyard_common.types import Json

RestartPolicy = Literal["ExitCode", "OnFailure", "Never", "Always"]
RestartScope = Literal["Pod", "ReplicaType", "Job"]
CODE = "/steelyard/code"
"""Folder of a job's files in its containers, when they are carried to the cluster."""
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True)
class Program:
    """The program of every replica."""

    image: str
    command: tuple[str, ...]
    directory: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    """Limits: cpu, memory, nvidia.com/gpu."""


@dataclass(frozen=True)
class JobRequest:
    """A training job as a person thinks of it."""

    name: str
    framework: TrainingFramework
    program: Program
    workers: int = 1
    replicas: Mapping[str, int] = field(default_factory=dict)
    """Further replica types, or other numbers of them."""
    namespace: str | None = None
    """Default: that of the client that makes the job; of `manifest`, `default`."""
    restart: RestartPolicy = "ExitCode"
    """ExitCode: a replica that was killed starts again, a program that failed by itself fails the job."""
    restart_scope: RestartScope | None = None
    backoff_limit: int | None = None
    deadline: int | None = None
    """Seconds."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    code: Json | None = None
    """The ConfigMap whose files are put into CODE, as a volume's source."""

    @property
    def counts(self) -> dict[str, int]:
        """Replicas of each type. Raises BadJob."""
        return self.framework.replicas(self.workers, self.replicas)


def fresh_name(stem: str) -> str:
    """A name that no other job has, from that of a program."""
    words = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:30].strip("-")
    return f"{words if words[:1].isalpha() else f'train-{words}'.strip('-')}-{secrets.token_hex(3)[:5]}"


def manifest(request: JobRequest) -> Json:
    """The resource, ready to be created. Raises BadJob, which names the flag and what is allowed."""
    check_name(request.name, request.counts)
    for flag, value, possible in (
        ("--restart", request.restart, get_args(RestartPolicy)),
        ("--restart-scope", request.restart_scope, (None, *get_args(RestartScope))),
    ):
        if value not in possible:
            raise BadJob(f"{flag} {value}: should be {', '.join(word for word in possible if word)}")
    for flag, number, most in (
        ("--backoff-limit", request.backoff_limit, MAX_NUMBER),
        ("--deadline", request.deadline, 2**63 - 1),
    ):
        if number is not None and not 0 <= number <= most:
            raise BadJob(f"{flag} {number}: should be from 0 to {most}")
    framework = request.framework
    scope = {RESTART_SCOPE: request.restart_scope} if request.restart_scope else {}
    annotations = {**request.annotations, **scope}
    spec: Json = {"runPolicy": _run_policy(request), **_own(request)}
    spec[framework.specs] = {role: _replica(request, count) for role, count in request.counts.items()}
    return {
        "apiVersion": framework.resource.api_version,
        "kind": framework.resource.kind,
        "metadata": {
            "name": request.name,
            "namespace": request.namespace or "default",
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": spec,
    }


def _own(request: JobRequest) -> Json:
    """The kind's fields in addition to its replicas. A Chief or parameter servers end a TFJob by rules of their own."""
    if "PS" in request.counts or "Chief" in request.counts:
        return {name: value for name, value in request.framework.spec.items() if name != "successPolicy"}
    return request.framework.spec


def _run_policy(request: JobRequest) -> Json:
    policy = {"backoffLimit": request.backoff_limit, "activeDeadlineSeconds": request.deadline}
    kept = {name: value for name, value in policy.items() if value is not None}
    return {"cleanPodPolicy": "Running", **kept}  # what runs on after the end would run for ever


def _replica(request: JobRequest, count: int) -> Json:
    program = request.program
    container: Json = {
        "name": request.framework.container,
        "image": program.image,
        "command": list(program.command),
    }
    if program.directory:
        container["workingDir"] = program.directory
    if program.environment:
        container["env"] = [{"name": name, "value": value} for name, value in program.environment.items()]
    if program.resources:
        container["resources"] = {"limits": dict(program.resources), "requests": dict(program.resources)}
    spec: Json = {"containers": [container]}
    if request.code is not None:
        container["volumeMounts"] = [{"name": "code", "mountPath": CODE, "readOnly": True}]
        spec["volumes"] = [{"name": "code", "configMap": request.code}]
        # Alone in its namespace the program is process 1, which the kernel keeps every signal from that it does not
        # handle: Python would take no notice of SIGTERM, and each stop wait for its grace period.
        spec["shareProcessNamespace"] = True
    return {"replicas": count, "restartPolicy": request.restart, "template": {"spec": spec}}


def check_name(name: str, counts: Mapping[str, int]) -> None:
    """Raises BadJob for a name that no resource can have, or from which no Pod's can be made."""
    if not _LABEL.fullmatch(name):
        raise BadJob(
            f"--name {name}: should be lower-case letters, digits and hyphens, and begin with a letter"
        )
    longest = max((f"{name}-{role.lower()}-{count - 1}" for role, count in counts.items()), key=len)
    if len(longest) > NAME_LIMIT:
        allowed = NAME_LIMIT - len(longest) + len(name)
        raise BadJob(
            f"--name {name}: has {len(name)} characters, and its longest Pod name, {longest}, {len(longest)}; "
            f"{NAME_LIMIT} are possible, so choose a name of at most {allowed}"
        )
