"""DLJob, our generic training job, and Framework, what such jobs have in common: both are data.

The operator's `training/definition.py` reads them; docs/training/frameworks.md shows how they are written.
"""

from typing import Literal

from pydantic import ConfigDict, Field

from steelyard.schema.base import SchemaModel
from steelyard.schema.training.common import (
    INT32,
    MAX_REPLICAS,
    MAX_ROLES,
    PodTemplate,
    RestartPolicy,
    RunPolicy,
    Scope,
    validations,
)
from steelyard.schema.training.templates import PATTERN, THERE_ARE
from steelyard.types import Json

ROLE = r"^[a-z]([-a-z0-9]{0,29}[a-z0-9])?$"
_ROLE_RULE = (
    f"self.all(k, k.matches('{ROLE}'))",
    "spec.roles: a role's name is up to 31 lower-case letters, digits and '-', and begins with a letter",
)
_ROLES: Json = {"minProperties": 1, "maxProperties": MAX_ROLES}


class Dependency(SchemaModel):
    """What has to have happened to a role before another begins."""

    role: str
    """The role that comes first."""
    condition: Literal["Running", "Ready", "Succeeded"] = "Ready"
    """How far all its replicas have to be."""


class Role(SchemaModel):
    """Replicas with one part in the job."""

    replicas: int | None = Field(default=None, ge=0, le=MAX_REPLICAS)
    """How many; absent: what the framework says, or one."""
    template: PodTemplate
    """Their Pods."""
    restartPolicy: RestartPolicy | None = None
    """What happens when one fails; absent: what the framework says."""
    restartScope: Scope | None = None
    """What starts again when one failed: the Pod, all of the role, or the whole job."""
    dependsOn: list[Dependency] = Field(default_factory=list, max_length=MAX_ROLES)
    """Their Pods are made when these roles have come so far."""


class FailureRule(SchemaModel):
    """What to do about a failed replica that matches everything given here; the first rule that matches wins."""

    action: Literal["Restart", "Fail", "Ignore"]
    """Restart it with its scope, fail the job, or take no notice."""
    exitCodes: list[int] = Field(default_factory=list, max_length=256)
    """Exit codes of its main container."""
    signals: list[int] = Field(default_factory=list, max_length=64)
    """Signals that ended it."""
    reasons: list[str] = Field(default_factory=list, max_length=64)
    """Reasons of the container or the Pod: OOMKilled, Evicted."""
    pattern: str | None = None
    """A regular expression that is searched in the message."""
    roles: list[str] = Field(default_factory=list, max_length=MAX_ROLES)
    """Roles; absent: all."""
    scope: Scope | None = None
    """Instead of the role's restart scope."""
    counted: bool = True
    """Whether the restart uses up `runPolicy.backoffLimit`."""


_ONE_NUMBER = (
    "!(has(self.count) && has(self.percent))",
    "successPolicy: give count or percent, not both",
)


class SuccessPolicy(SchemaModel):
    """Which replicas have to succeed for the job to."""

    model_config = ConfigDict(json_schema_extra=validations(_ONE_NUMBER))

    roles: list[str] = Field(default_factory=list, max_length=MAX_ROLES)
    """Roles that count; absent: all."""
    count: int | None = Field(default=None, ge=1, le=INT32)
    """How many of their replicas."""
    percent: int | None = Field(default=None, ge=1, le=100)
    """What share of their replicas."""
    all: bool | None = None
    """All of them: as without a number."""


class OutputModel(SchemaModel):
    """A Model that the job's output becomes when it has succeeded."""

    name: str = Field(min_length=1, max_length=253)
    """The Model's name."""
    path: str = Field(pattern="^/", max_length=1024)
    """Folder in the container; the program finds it in STEELYARD_OUTPUT."""
    role: str | None = None
    """Role whose replica 0 writes it; absent: the first that success depends on."""


class Outputs(SchemaModel):
    """What is left of the job."""

    model: OutputModel | None = None
    """A Model."""


_KNOWN = (f"self.matches('{PATTERN}')", f"there is no such name in ${{…}}; there are {THERE_ARE}")


class Variable(SchemaModel):
    """An environment variable that replicas get, unless their template sets it."""

    name: str = Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)
    """Name."""
    value: str = Field(max_length=4096, json_schema_extra=validations(_KNOWN))
    """Text; `${…}` is filled in: `${rank}`, `${world.size}`, `${worker.addresses}` and so on."""
    roles: list[str] = Field(default_factory=list, max_length=MAX_ROLES)
    """Roles that get it; absent: all."""


_COUNTS = (
    "!has(self.maximum) || self.minimum <= self.maximum",
    "a role's minimum is more than its maximum",
)


class FrameworkRole(SchemaModel):
    """A role that a framework knows."""

    model_config = ConfigDict(json_schema_extra=validations(_COUNTS))

    name: str = Field(pattern=ROLE, max_length=31)
    """Name."""
    minimum: int = Field(default=0, ge=0, le=MAX_REPLICAS)
    """The fewest replicas; from 1 on, a job has to have the role."""
    maximum: int | None = Field(default=None, ge=1, le=INT32)
    """The most replicas."""
    default: int = Field(default=1, ge=0, le=MAX_REPLICAS)
    """Replicas of a role that gives no number."""
    restartScope: Scope = "Job"
    """What starts again when one failed."""


_KNOWS = "!has(self.roles) || self.roles.exists(x, x.name == r)"
_FRAMEWORK_RULES = (
    (
        "!has(self.roles) || self.roles.all(r, self.roles.exists_one(x, x.name == r.name))",
        "roles: a name is there twice",
    ),
    (
        f"!has(self.successPolicy) || !has(self.successPolicy.roles) || self.successPolicy.roles.all(r, {_KNOWS})",
        "successPolicy.roles: names a role that is not there",
    ),
    (
        f"!has(self.environment) || self.environment.all(e, !has(e.roles) || e.roles.all(r, {_KNOWS}))",
        "environment[].roles: names a role that is not there",
    ),
    (
        "!has(self.environment) || self.environment.all(e, self.environment.exists_one(x, x.name == e.name))",
        "environment: a name is there twice",
    ),
)


class FrameworkSpec(SchemaModel):
    """A framework as data: who takes part, on which port, with which environment, and when a job has succeeded."""

    model_config = ConfigDict(json_schema_extra=validations(*_FRAMEWORK_RULES))

    container: str | None = None
    """The container that decides, and whose port counts; absent: the first."""
    portName: str = Field(default="main", pattern=r"^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$", max_length=15)
    """Name of the main port in a template, where it is another than `port`."""
    port: int = Field(default=29500, ge=1, le=65535)
    """The main port."""
    roles: list[FrameworkRole] = Field(default_factory=list, max_length=MAX_ROLES)
    """Who takes part, in the order of the ranks; absent: any roles, in the order of their names."""
    restartPolicy: RestartPolicy = "OnFailure"
    """What happens when a replica fails whose role says nothing."""
    environment: list[Variable] = Field(default_factory=list, max_length=64)
    """Variables of all containers."""
    successPolicy: SuccessPolicy | None = None
    """Which replicas have to succeed; absent: all of all roles."""


_ONE_FRAMEWORK = (
    "has(self.framework) != has(self.frameworkSpec)",
    "spec: give framework or frameworkSpec, one of them",
)


_THERE = (
    (
        "self.roles.all(k, !has(self.roles[k].dependsOn) || self.roles[k].dependsOn.all(d, d.role in self.roles))",
        "spec.roles.<name>.dependsOn: names a role that is not there",
    ),
    (
        "self.roles.all(k, !has(self.roles[k].dependsOn) || self.roles[k].dependsOn.all(d, d.role != k))",
        "spec.roles.<name>.dependsOn: a role would wait for itself",
    ),
    (
        "!has(self.successPolicy) || !has(self.successPolicy.roles)"
        " || self.successPolicy.roles.all(r, r in self.roles)",
        "spec.successPolicy.roles: names a role that is not there",
    ),
    (
        "!has(self.failureRules) || self.failureRules.all(f, !has(f.roles) || f.roles.all(r, r in self.roles))",
        "spec.failureRules[].roles: names a role that is not there",
    ),
    (
        "!has(self.outputs) || !has(self.outputs.model) || !has(self.outputs.model.role)"
        " || self.outputs.model.role in self.roles",
        "spec.outputs.model.role: names a role that is not there",
    ),
)


class DLJobSpec(SchemaModel):
    """A training job of any framework: named roles that find one another by host names."""

    model_config = ConfigDict(json_schema_extra=validations(_ONE_FRAMEWORK, *_THERE))

    framework: str | None = Field(default=None, min_length=1, max_length=253)
    """Name of a Framework resource."""
    frameworkSpec: FrameworkSpec | None = None
    """Instead: the definition itself."""
    roles: dict[str, Role] = Field(json_schema_extra={**_ROLES, **validations(_ROLE_RULE)})
    """Who takes part."""
    runPolicy: RunPolicy | None = Field(default=None, json_schema_extra={"default": {}})
    """Deadlines, restarts and clean-up; `cleanPodPolicy` is Running where absent."""
    restartScope: Scope | None = None
    """What starts again when a replica failed, for all roles that say nothing."""
    failureRules: list[FailureRule] = Field(default_factory=list, max_length=64)
    """What to do about failed replicas, before `restartPolicy`."""
    successPolicy: SuccessPolicy | None = None
    """Which replicas have to succeed; absent: what the framework says."""
    outputs: Outputs | None = None
    """What is left of the job."""
