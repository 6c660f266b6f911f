"""DLJob, our generic training job, and Framework, what such jobs have in common: both are data.

`operator/training/frameworks/definition.py` reads them; docs/training/frameworks.md shows how they are written.
"""

from typing import Literal

from pydantic import ConfigDict, Field

from steelyard_common.types import Json
from steelyard_schema.base import SchemaModel
from steelyard_schema.training.common import (
    INT32,
    MAX_REPLICAS,
    MAX_ROLES,
    PodTemplate,
    RestartPolicy,
    RunPolicy,
    Scope,
    validations,
)
from steelyard_schema.training.templates import PATTERN, THERE_ARE

ROLE = r"^[a-z]([-a-z0-9]{0,29}[a-z0-9])?$"
_ROLE_RULE = (
    f"self.all(k, k.matches('{ROLE}'))",
    "spec.roles: a role's name is up to 31 lower-case letters, digits and '-', and begins with a letter",
)
_ROLES: Json = {"minProperties": 1, "maxProperties": MAX_ROLES}


class Dependency(SchemaModel):
    """A condition on a role that must hold before another role begins."""

    role: str
    """Role that comes first."""
    condition: Literal["Running", "Ready", "Succeeded"] = "Ready"
    """Condition that all replicas of the role must have reached."""


class Role(SchemaModel):
    """Replicas with one part in the job."""

    replicas: int | None = Field(default=None, ge=0, le=MAX_REPLICAS)
    """Number of replicas; by default the framework's, or one."""
    template: PodTemplate
    """Template of their Pods."""
    restartPolicy: RestartPolicy | None = None
    """Treatment of a failed replica; by default the framework's."""
    restartScope: Scope | None = None
    """Part of the job that is restarted after a failure: the Pod, all Pods of the role, or the whole job."""
    dependsOn: list[Dependency] = Field(default_factory=list, max_length=MAX_ROLES)
    """Conditions on other roles that must hold before the Pods are made."""


class FailureRule(SchemaModel):
    """A rule for failed replicas that match all of its conditions; the first rule that matches counts."""

    action: Literal["Restart", "Fail", "Ignore"]
    """Action: restart the replica with its scope, fail the job, or ignore the failure."""
    exitCodes: list[int] = Field(default_factory=list, max_length=256)
    """Exit codes of the replica's main container."""
    signals: list[int] = Field(default_factory=list, max_length=64)
    """Signals that ended the replica."""
    reasons: list[str] = Field(default_factory=list, max_length=64)
    """Reasons of the container or the Pod, such as OOMKilled and Evicted."""
    pattern: str | None = None
    """Regular expression that is searched for in the message."""
    roles: list[str] = Field(default_factory=list, max_length=MAX_ROLES)
    """Roles that the rule is for; by default all."""
    scope: Scope | None = None
    """Restart scope, in place of the role's."""
    counted: bool = True
    """True if the restart counts towards `runPolicy.backoffLimit`."""


_ONE_NUMBER = (
    "!(has(self.count) && has(self.percent))",
    "successPolicy: give count or percent, not both",
)


class SuccessPolicy(SchemaModel):
    """Replicas that must succeed for the job to succeed."""

    model_config = ConfigDict(json_schema_extra=validations(_ONE_NUMBER))

    roles: list[str] = Field(default_factory=list, max_length=MAX_ROLES)
    """Roles that count; by default all."""
    count: int | None = Field(default=None, ge=1, le=INT32)
    """Number of their replicas that must succeed."""
    percent: int | None = Field(default=None, ge=1, le=100)
    """Percentage of their replicas that must succeed."""
    all: bool | None = None
    """True if all their replicas must succeed, as without a number."""


class OutputModel(SchemaModel):
    """A Model that is made of the job's output when the job has succeeded."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the Model."""
    path: str = Field(pattern="^/", max_length=1024)
    """Folder in the container; the program finds its path in STEELYARD_OUTPUT."""
    role: str | None = None
    """Role whose replica 0 writes the output; by default the first role that success depends on."""


class Outputs(SchemaModel):
    """Outputs of a job."""

    model: OutputModel | None = None
    """Model that is made of the output."""


_KNOWN = (f"self.matches('{PATTERN}')", f"there is no such name in ${{…}}; there are {THERE_ARE}")


class Variable(SchemaModel):
    """An environment variable that replicas get, unless their template sets it."""

    name: str = Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)
    """Name of the variable."""
    value: str = Field(max_length=4096, json_schema_extra=validations(_KNOWN))
    """Value of the variable. The operator fills in `${…}`: `${rank}`, `${world.size}`, `${worker.addresses}` and
    others."""
    roles: list[str] = Field(default_factory=list, max_length=MAX_ROLES)
    """Roles that get the variable; by default all."""


_COUNTS = (
    "!has(self.maximum) || self.minimum <= self.maximum",
    "a role's minimum is more than its maximum",
)


class FrameworkRole(SchemaModel):
    """A role that a framework knows."""

    model_config = ConfigDict(json_schema_extra=validations(_COUNTS))

    name: str = Field(pattern=ROLE, max_length=31)
    """Name of the role."""
    minimum: int = Field(default=0, ge=0, le=MAX_REPLICAS)
    """Minimum number of replicas; if it is 1 or more, a job must have the role."""
    maximum: int | None = Field(default=None, ge=1, le=INT32)
    """Maximum number of replicas."""
    default: int = Field(default=1, ge=0, le=MAX_REPLICAS)
    """Number of replicas of a role that gives none."""
    restartScope: Scope = "Job"
    """Part of the job that is restarted after a failure."""


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
    """A framework as data: its roles, port, environment, and the rule for the success of a job."""

    model_config = ConfigDict(json_schema_extra=validations(*_FRAMEWORK_RULES))

    container: str | None = None
    """Container whose end and whose port count; by default the first."""
    portName: str = Field(default="main", pattern=r"^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$", max_length=15)
    """Name of the main port in a template, if it is not `port`."""
    port: int = Field(default=29500, ge=1, le=65535)
    """Number of the main port."""
    roles: list[FrameworkRole] = Field(default_factory=list, max_length=MAX_ROLES)
    """Roles in the order of the ranks; without them, jobs may have any roles, in the order of their names."""
    restartPolicy: RestartPolicy = "OnFailure"
    """Treatment of failed replicas whose role has no rule."""
    environment: list[Variable] = Field(default_factory=list, max_length=64)
    """Variables of all containers."""
    successPolicy: SuccessPolicy | None = None
    """Replicas that must succeed; by default all replicas of all roles."""


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
    """Definition of the framework, in place of `framework`."""
    roles: dict[str, Role] = Field(json_schema_extra={**_ROLES, **validations(_ROLE_RULE)})
    """Replicas of the job by role."""
    runPolicy: RunPolicy | None = Field(default=None, json_schema_extra={"default": {}})
    """Deadline, restarts and clean-up; `cleanPodPolicy` is Running by default."""
    restartScope: Scope | None = None
    """Part of the job that is restarted after a failure, for roles that set none."""
    failureRules: list[FailureRule] = Field(default_factory=list, max_length=64)
    """Rules for failed replicas, which go before `restartPolicy`."""
    successPolicy: SuccessPolicy | None = None
    """Replicas that must succeed; by default those that the framework names."""
    outputs: Outputs | None = None
    """Outputs of the job."""
