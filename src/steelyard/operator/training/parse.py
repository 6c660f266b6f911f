"""Parsing of resources of any kind into a `TrainingJob`. Invalid names the field that cannot be read."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from steelyard.operator.settings import OperatorSettings
from steelyard.operator.training import job_status, spec_types
from steelyard.operator.training.frameworks.framework import Framework, RoleKind
from steelyard.operator.training.labels import FAILURE_RULES, RESTART_SCOPE
from steelyard.operator.training.model import (
    IN_PLACE,
    Action,
    CleanPods,
    Dependency,
    Invalid,
    RestartPolicy,
    Role,
    Rule,
    RunPolicy,
    Scope,
    TrainingJob,
)
from steelyard_common.types import Json, value_text
from steelyard_kube.objects import read_annotations, read_spec, read_status
from steelyard_schema.training.common import INT32, INT64, MAX_REPLICAS

GENERIC = "DLJob"


def parse_job(resource: Json, framework: Framework, settings: OperatorSettings) -> TrainingJob:
    """Read a job and its status. Raises Invalid for what cannot be read, naming the field."""
    spec = read_spec(resource)
    status = job_status.read_status(read_status(resource))
    if framework.definition is not None:  # a framework that is a resource stays as it was at first sight
        status = replace(status, framework=framework.definition)
    job = TrainingJob(
        resource=resource,
        framework=framework,
        roles=_roles(resource, spec, framework),
        policy=_policy(resource["kind"], spec),
        rules=_rules(resource, spec),
        status=status,
        settings=settings.training,
    )
    return replace(job, rules=(*job.rules, *framework.rules(job)))


# ---- replica types


def _roles(resource: Json, spec: Json, framework: Framework) -> Mapping[str, Role]:
    """Read the replica types, in the framework's order; the case of their names does not matter."""
    field = f"spec.{framework.specs}"
    given: dict[str, tuple[str, Json]] = {}
    for name, entry in _mapping(spec.get(framework.specs), field).items():
        kind = next((kind for kind in framework.roles if kind.name.lower() == name.lower()), None)
        if kind is None:
            known = ", ".join(role.name for role in framework.roles)
            raise Invalid(f"{field}.{name}", f"no such replica type; there are {known}")
        if kind.name in given:
            raise Invalid(f"{field}.{name}", f"the replica type {kind.name} is given twice")
        given[kind.name] = f"{field}.{name}", _mapping(entry, f"{field}.{name}")
    scope = _read_scope(resource, spec)
    roles: dict[str, Role] = {}
    for kind in framework.roles:
        if kind.name in given:
            where, entry = given[kind.name]
            default = framework.scope(kind, given.keys(), spec)
            scopes = _Scopes(scope, default, v1=resource["kind"] != GENERIC)
            roles[kind.name] = _role(where, entry, kind, framework.restart, scopes)
    return roles


class _Scopes(NamedTuple):
    given: Scope | None
    default: Scope
    v1: bool

    def for_restart(self, restart: RestartPolicy) -> Scope:
        """Return the scope for a restart policy.

        As in v1, the kubelet restarts replicas of Always and OnFailure, each alone, unless the job asks for more. A
        DLJob with OnFailure restarts what its framework says.
        """
        alone = restart in IN_PLACE if self.v1 else restart == "Always"
        return self.given or ("Pod" if alone else self.default)


def _read_scope(resource: Json, spec: Json) -> Scope | None:
    scope: Scope | None = None
    annotation = read_annotations(resource).get(RESTART_SCOPE)
    if annotation is not None:
        scope = _parse_choice(annotation, Scope, f"metadata.annotations[{RESTART_SCOPE}]")
    elif resource["kind"] == GENERIC and spec.get("restartScope"):
        scope = _parse_choice(spec["restartScope"], Scope, "spec.restartScope")
    return scope


def _role(field: str, spec: Json, kind: RoleKind, policy: RestartPolicy, scopes: _Scopes) -> Role:
    template = _mapping(spec.get("template"), f"{field}.template")
    containers = _mapping(template.get("spec"), f"{field}.template.spec").get("containers")
    if not isinstance(containers, list) or not containers:
        raise Invalid(f"{field}.template.spec.containers", "has to have at least one container")
    restart = _parse_choice(spec.get("restartPolicy") or policy, RestartPolicy, f"{field}.restartPolicy")
    if spec.get("restartScope"):
        scopes = scopes._replace(given=_parse_choice(spec["restartScope"], Scope, f"{field}.restartScope"))
    return Role(
        name=kind.name,
        count=_count(spec.get("replicas"), f"{field}.replicas", kind.default_replicas, MAX_REPLICAS),
        template=template,
        restart=restart,
        scope=scopes.for_restart(restart),
        depends_on=tuple(_dependency(dependency, field) for dependency in spec.get("dependsOn") or ()),
    )


def _dependency(entry: Json, field: str) -> tuple[str, Dependency]:
    condition = entry.get("condition") or "Ready"
    return str(entry.get("role")), _parse_choice(condition, Dependency, f"{field}.dependsOn.condition")


# ---- policies


def _policy(kind: str, spec: Json) -> RunPolicy:
    field = "spec.runPolicy"
    policy = _mapping(spec.get("runPolicy") or {}, field)
    clean = policy.get("cleanPodPolicy") or spec.get("cleanPodPolicy")  # MPIJob has it there, too
    return RunPolicy(
        clean_pods=_parse_choice(
            clean or ("Running" if kind == GENERIC else "None"), CleanPods, f"{field}.cleanPodPolicy"
        ),
        clean_pods_given=bool(clean),
        ttl=_whole(policy, "ttlSecondsAfterFinished"),
        deadline=_whole(policy, "activeDeadlineSeconds", INT64),
        backoff_limit=_whole(policy, "backoffLimit"),
        suspend=bool(policy.get("suspend")),
        managed_by=str(policy.get("managedBy") or ""),
        scheduling=_scheduling(policy.get("schedulingPolicy") or {}, f"{field}.schedulingPolicy"),
    )


def _scheduling(value: object, field: str) -> Json:
    policy = _mapping(value, field)
    _count(policy.get("minAvailable"), f"{field}.minAvailable", 0)
    return policy


def _whole(values: Json, name: str, most: int = INT32) -> int | None:
    value = values.get(name)
    return None if value is None else _count(value, f"spec.runPolicy.{name}", 0, most)


# ---- failure rules


def rules_field(kind: str) -> str:
    """Return the field in which a job of a kind gives its rules."""
    return "spec.failureRules" if kind == GENERIC else f"metadata.annotations[{FAILURE_RULES}]"


def _rules(resource: Json, spec: Json) -> tuple[Rule, ...]:
    field = rules_field(resource["kind"])
    if resource["kind"] == GENERIC:
        return _parse_rules(spec.get("failureRules") or [], field)
    text = read_annotations(resource).get(FAILURE_RULES)
    if not text:
        return ()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter of a text of ten thousand brackets
        raise Invalid(field, f"is not JSON: {error}") from None
    return _parse_rules(value, field)


def _parse_rules(value: object, field: str) -> tuple[Rule, ...]:
    spec_types.check_rules(value, field)
    if not isinstance(value, list):
        raise Invalid(field, "has to be a list of rules")
    return tuple(_rule(_mapping(rule, f"{field}[{n}]"), f"{field}[{n}]") for n, rule in enumerate(value))


def _rule(entry: Json, field: str) -> Rule:
    scope = entry.get("scope")
    return Rule(
        action=_parse_choice(entry.get("action"), Action, f"{field}.action"),
        exit_codes=tuple(_count(code, f"{field}.exitCodes", 0) for code in entry.get("exitCodes") or ()),
        signals=tuple(_count(signal, f"{field}.signals", 0) for signal in entry.get("signals") or ()),
        reasons=tuple(map(str, entry.get("reasons") or ())),
        pattern=str(entry.get("pattern") or ""),
        roles=tuple(map(str, entry.get("roles") or ())),
        scope=_parse_choice(scope, Scope, f"{field}.scope") if scope is not None else None,
        counted=bool(entry.get("counted", True)),
    )


# ---- values


def _mapping(value: object, field: str) -> Json:
    if not isinstance(value, dict):
        raise Invalid(
            field, "is required" if value is None else f"has to be an object, not {value_text(value)}"
        )
    return value


def _count(value: object, field: str, default: int, most: int = INT32) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise Invalid(field, f"has to be a whole number from 0 to {most}, not {value_text(value)}")
    return value


def _parse_choice(value: object, choice: Any, field: str) -> Any:
    allowed = get_args(choice)
    if value not in allowed:
        raise Invalid(field, f"has to be one of {', '.join(allowed)}, not {value_text(value)}")
    return value
