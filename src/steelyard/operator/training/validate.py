"""Checks of a job that a schema cannot make: names that fit, containers that exist, replicas within bounds.

Invalid names the field; the job then has failed for the reason `<Kind>FailedValidation`.
"""

import re

import orjson

from steelyard.operator.names import find_reserved
from steelyard.operator.training import parse, replica_objects
from steelyard.operator.training.frameworks.framework import RoleKind
from steelyard.operator.training.labels import NAME_LIMIT
from steelyard.operator.training.model import Invalid, ReplicaId, Role, Rule, TrainingJob
from steelyard.operator.training.policies import failure_patterns as patterns
from steelyard_common.types import Json, mapping
from steelyard_kube.objects import read_labels
from steelyard_schema.quantity import amount
from steelyard_schema.training.common import MAX_POD_BYTES
from steelyard_schema.unknown_fields import unknown_pod_fields

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def check(job: TrainingJob) -> None:
    """All of it, the simplest first."""
    _name(job)
    if not job.roles:
        known = ", ".join(role.name for role in job.framework.roles)
        raise Invalid(f"spec.{job.framework.specs}", f"has to have at least one replica type of {known}")
    for kind in job.framework.roles:
        _bounds(job, kind)
    for role in job.roles.values():
        _containers(job, role)
        if reserved := find_reserved(read_labels(role.template)):
            field = f"spec.{job.framework.specs}.{role.name}.template.metadata.labels[{reserved}]"
            raise Invalid(field, "is a label of the platform's own Pods, which a template does not set")
    _order(job)
    for number, rule in enumerate(job.rules):
        _rule(job, rule, number)
    job.framework.check(job)


def check_templates(job: TrainingJob) -> None:
    """Refuse fields that Pods do not have, which definitions of an earlier version kept: the API would drop them."""
    unknown = unknown_pod_fields(job.spec, "spec")
    for field in unknown:
        raise Invalid(*field)


def check_size(job: TrainingJob) -> None:
    """Refuse a job whose Pods would have too many bytes together, before the first of them is made."""
    room = MAX_POD_BYTES
    for role in job.roles.values():
        if not role.count:
            continue
        # The last one has the longest name and index.
        size = len(orjson.dumps(replica_objects.pod(job, ReplicaId(role.name, role.count - 1), 0)))
        if role.count * size > room:
            field = f"spec.{job.framework.specs}.{role.name}.replicas"
            text = f"{role.count} Pods of {size} bytes, with the template and the names of the others"
            raise Invalid(
                field, f"is too large: {text}; all Pods of a job have at most {MAX_POD_BYTES} bytes"
            )
        room -= role.count * size


def _name(job: TrainingJob) -> None:
    """The longest Pod name is a host name: a DNS label."""
    if not _LABEL.fullmatch(job.name):
        raise Invalid(
            "metadata.name", f"{job.name!r} is not a DNS label that begins with a letter: a-z, 0-9 and - only"
        )
    longest = max((job.replica_name(replica_id) for replica_id in job.replica_ids), key=len, default=job.name)
    if len(longest) > NAME_LIMIT:
        over = len(longest) - NAME_LIMIT
        raise Invalid(
            "metadata.name",
            f"is {over} {'character' if over == 1 else 'characters'} too long: its Pod {longest} would have"
            f" {len(longest)}, and a host name has at most {NAME_LIMIT}",
        )


def _bounds(job: TrainingJob, kind: RoleKind) -> None:
    field = f"spec.{job.framework.specs}.{kind.name}"
    role = job.roles.get(kind.name)
    if role is None:
        if kind.required:
            raise Invalid(field, "is required")
        return
    if role.count < kind.minimum:
        raise Invalid(f"{field}.replicas", f"has to be at least {kind.minimum}, not {role.count}")
    if kind.maximum is not None and role.count > kind.maximum:
        raise Invalid(f"{field}.replicas", f"has to be at most {kind.maximum}, not {role.count}")


def _containers(job: TrainingJob, role: Role) -> None:
    field = f"spec.{job.framework.specs}.{role.name}.template.spec.containers"
    names = []
    for number, container in enumerate(role.template["spec"]["containers"]):
        names.append(container.get("name") or "")
        if not names[-1]:
            raise Invalid(f"{field}[{number}].name", "is required")
        if not container.get("image"):
            raise Invalid(f"{field}[{number}].image", "is required")
        _resources(container, f"{field}[{number}]")
    if job.framework.requires_container and job.framework.container not in names:
        raise Invalid(
            field, f"one of them has to be named {job.framework.container}; there are {', '.join(names)}"
        )


def _resources(container: Json, field: str) -> None:
    """A gang's needs are reckoned from them before any Pod is made that the API could refuse."""
    for which in ("requests", "limits"):
        try:
            amounts = mapping(container, "resources", which)
        except TypeError as error:
            raise Invalid(field, str(error)) from None
        for name, value in amounts.items():
            try:
                amount(str(value))
            except ValueError as error:
                raise Invalid(f"{field}.resources.{which}.{name}", str(error)) from None


def _order(job: TrainingJob) -> None:
    """Refuse a type that waits for itself, directly or by way of others."""
    for role in job.roles.values():
        field = f"spec.{job.framework.specs}.{role.name}.dependsOn"
        for name, _ in role.depends_on:
            if name not in job.roles:
                raise Invalid(field, f"the job has no replica type {name!r}; it has {', '.join(job.roles)}")
        if role.name in _list_awaited(job, role.name):
            raise Invalid(field, f"{role.name} would wait for itself")


def _list_awaited(job: TrainingJob, role: str) -> set[str]:
    """Every type that has to come first."""
    awaited: set[str] = set()
    waiting = [role]
    while waiting:
        new = {name for name, _ in job.roles[waiting.pop()].depends_on} - awaited
        awaited |= new
        waiting += sorted(new & job.roles.keys())
    return awaited


def _rule(job: TrainingJob, rule: Rule, number: int) -> None:
    field = f"{parse.rules_field(job.kind)}[{number}]"
    for name in rule.roles:
        if name not in job.roles:
            raise Invalid(
                f"{field}.roles", f"the job has no replica type {name!r}; it has {', '.join(job.roles)}"
            )
    try:
        patterns.check(rule.pattern)
    except ValueError as error:
        raise Invalid(f"{field}.pattern", f"{rule.pattern!r} is not a regular expression: {error}") from None
