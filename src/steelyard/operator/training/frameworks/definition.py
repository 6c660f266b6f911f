"""Frameworks that are resources: makes a `Framework` from a DLJob and the Framework that it names.

The definition is taken once, when the operator first sees the job, and kept in the job's status: a Framework that is
changed later changes no job that has begun.
"""

from collections.abc import Mapping
from functools import partial

from pydantic import ValidationError

from steelyard.operator.training.frameworks import variables as template
from steelyard.operator.training.frameworks.framework import Framework, Placement, RoleKind, Value
from steelyard.operator.training.model import Invalid, ReplicaId, TrainingJob
from steelyard.operator.training.policies import success
from steelyard_common.types import Json, mapping
from steelyard_kube.objects import read_spec, read_status
from steelyard_schema.faults import fault_message
from steelyard_schema.training.dl_job import FrameworkSpec

KIND = "DLJob"
FRAMEWORK, INLINE = "spec.framework", "spec.frameworkSpec"


class NoSuchFramework(Invalid):
    """The Framework is not there, or not yet: who applies both at once gets the job in first now and then."""


def find_framework(resource: Json, frameworks: Mapping[str, Json]) -> Framework:
    """Raises Invalid where a DLJob's framework is missing or is not well written."""
    field, definition = _definition(resource, frameworks)
    try:
        spec = FrameworkSpec.parse(definition)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Invalid(f"{field}.{where}", fault_message(first, FrameworkSpec)) from None
    return _framework(resource, spec, definition, field)


def _definition(resource: Json, frameworks: Mapping[str, Json]) -> tuple[str, Json]:
    """The definition, and which field it is to be blamed on."""
    spec = read_spec(resource)
    name = spec.get("framework")
    field = f"{FRAMEWORK} {name}" if name else INLINE
    # The definition with which the job began: a change of the Framework must not give one job two kinds of Pods.
    if kept := read_status(resource).get("framework"):
        return field, kept
    if bool(name) == bool(spec.get("frameworkSpec") is not None):
        raise Invalid(FRAMEWORK, "give framework or frameworkSpec, one of them")
    if not name:
        return field, spec["frameworkSpec"]
    if name not in frameworks:
        there = ", ".join(sorted(frameworks)) or "none"
        raise NoSuchFramework(FRAMEWORK, f"there is no Framework {name!r}; there are: {there}")
    return field, read_spec(frameworks[name])


def _framework(resource: Json, spec: FrameworkSpec, definition: Json, field: str) -> Framework:
    roles = _roles(resource, spec)
    policy = resource["spec"].get("successPolicy")
    if policy is None:
        policy = spec.successPolicy.dump() if spec.successPolicy else {}
    return Framework(
        kind=KIND,
        label="dljob-controller",
        specs="roles",
        roles=roles,
        container=spec.container or "",
        requires_container=bool(spec.container),
        port_name=spec.portName,
        port=spec.port,
        environment=partial(_environment, spec, tuple(role.name for role in roles), field),
        success_rule=success.rule(policy),
        restart=spec.restartPolicy,
        subdomain=True,
        check=partial(_check, policy),
        definition=definition,
    )


def _roles(resource: Json, spec: FrameworkSpec) -> tuple[RoleKind, ...]:
    """The framework's, in its order; one that names none takes any, in the order of their names."""
    if not spec.roles:
        return tuple(RoleKind(name) for name in sorted(mapping(resource["spec"], "roles")))
    return tuple(
        RoleKind(
            name=role.name,
            minimum=role.minimum,
            maximum=role.maximum,
            required=role.minimum > 0,
            scope=role.restartScope,
            default_replicas=role.default,
        )
        for role in spec.roles
    )


def _environment(
    spec: FrameworkSpec, known: tuple[str, ...], field: str, placement: Placement
) -> Mapping[str, Value]:
    return {
        variable.name: template.fill(variable.value, placement, known, f"{field}.environment[{n}].value")
        for n, variable in enumerate(spec.environment)
        if not variable.roles or placement.replica_id.role in variable.roles
    }


def _check(policy: Json, job: TrainingJob) -> None:
    """Check that every name in the environment can be filled in, and that the job can succeed."""
    for role in job.roles.values():
        # Filled in once for checking: a wrong variable fails the job before it has Pods, not in one of them.
        if role.count:
            job.framework.environment(Placement(job, ReplicaId(role.name, 0)))
    roles = policy.get("roles") or list(job.roles)
    for name in roles:
        if name not in job.roles:
            there = ", ".join(job.roles)
            raise Invalid("spec.successPolicy.roles", f"the job has no role {name!r}; it has {there}")
    total = sum(job.roles[name].count for name in roles)
    if (count := policy.get("count") or 0) > total:
        raise Invalid("spec.successPolicy.count", f"is {count}, and these roles have {total} replicas in all")
