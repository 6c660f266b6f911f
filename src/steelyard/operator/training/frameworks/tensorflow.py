"""TFJob: TF_CONFIG, with every replica's address and which of them this one is."""

import json
from collections.abc import Collection, Mapping

from steelyard.operator.training.frameworks.framework import (
    Framework,
    Messages,
    Placement,
    RoleKind,
    RuleResult,
    Value,
)
from steelyard.operator.training.frameworks.success_rules import everyone, led_by, require_all, require_first
from steelyard.operator.training.model import Invalid, Rule, Scope, Tally, TrainingJob
from steelyard_common.types import Json

CHIEF, MASTER, PS, WORKER, EVALUATOR = "Chief", "Master", "PS", "Worker", "Evaluator"


def environment(placement: Placement) -> Mapping[str, Value]:
    """Make the environment of a replica; empty for a job of one replica, in which TensorFlow trains locally."""
    if placement.job.total == 1:
        return {}
    task = {"type": placement.replica_id.role.lower(), "index": placement.replica_id.index}
    if placement.job.spec.get("enableDynamicWorker"):
        return {"TF_CONFIG": _json({"cluster": _sparse(placement), "task": task})}
    cluster = {
        name.lower(): _addresses(placement, name) for name in sorted(placement.job.roles, key=str.lower)
    }
    return {"TF_CONFIG": _json({"cluster": cluster, "task": task, "environment": "cloud"})}


def _json(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))


def _addresses(placement: Placement, role: str) -> list[str]:
    job = placement.job
    domain = f".{job.settings.cluster_domain}" if job.settings.cluster_domain else ""
    reached = zip(placement.hosts(role), job.ports.get(role, ()), strict=True)
    return [f"{host}.{job.namespace}.svc{domain}:{port}" for host, port in reached]


def _sparse(placement: Placement) -> Json:
    """Workers come and go, so each knows the parameter servers and itself; a server knows itself alone."""
    own = _addresses(placement, placement.replica_id.role)[placement.replica_id.index]
    match placement.replica_id.role:
        case "Worker":
            return {"worker": {str(placement.replica_id.index): own}, "ps": _addresses(placement, PS)}
        case "PS":
            return {"worker": {}, "ps": [own]}
        case _:
            return {"worker": {}, "ps": []}


def success_rule(job: TrainingJob, tally: Tally) -> RuleResult:
    """The Chief decides; without one Worker 0, or all Workers where the success policy says so."""
    if WORKER not in job.roles:
        return led_by((CHIEF, MASTER), everyone)(job, tally)
    whole = job.spec.get("successPolicy") == "AllWorkers"
    return led_by((CHIEF, MASTER), require_all(WORKER) if whole else require_first(WORKER))(job, tally)


def scope(role: RoleKind, present: Collection[str], spec: Json) -> Scope:
    """Workers with parameter servers join again by themselves, and no replica waits for an evaluator; all others wait
    for one another."""
    alone = PS in present or bool(spec.get("enableDynamicWorker"))
    return "Pod" if role.name == EVALUATOR or (role.name == WORKER and alone) else role.scope


def rules(job: TrainingJob) -> tuple[Rule, ...]:
    """Make the rules by which a worker's final failure does not fail a job with `enableDynamicWorker`."""
    worker = job.roles.get(WORKER)
    if not job.spec.get("enableDynamicWorker") or worker is None:
        return ()
    match worker.restart:
        case "Never":
            return (Rule("Ignore", roles=(WORKER,)),)
        case "ExitCode":
            return (Rule("Ignore", roles=(WORKER,), exit_codes=tuple(range(1, 128))),)
        case _:
            return ()


def check(job: TrainingJob) -> None:
    if CHIEF in job.roles and MASTER in job.roles:
        raise Invalid("spec.tfReplicaSpecs", "has both Chief and Master; they are one part by two names")


TENSORFLOW = Framework(
    kind="TFJob",
    label="tfjob-controller",
    specs="tfReplicaSpecs",
    roles=(
        RoleKind(CHIEF, maximum=1),
        RoleKind(MASTER, maximum=1),
        RoleKind(PS),
        RoleKind(WORKER),
        RoleKind(EVALUATOR),
    ),
    container="tensorflow",
    port_name="tfjob-port",
    port=2222,
    environment=environment,
    success_rule=success_rule,
    every_container=False,
    masters=(CHIEF, MASTER),
    messages=Messages(
        running="{kind} {namespace}/{name} is running.",
        succeeded="{kind} {namespace}/{name} successfully completed.",
        failed="{kind} {namespace}/{name} has failed because {count} {role} replica(s) failed.",
        restarting="{kind} {namespace}/{name} is restarting because {count} {role} replica(s) failed.",
    ),
    scope=scope,
    rules=rules,
    check=check,
)
