"""PyTorchJob: ranks and an address for `torch.distributed`, and what `torchrun` takes from its environment (PET_*)."""

from collections.abc import Collection, Mapping

from steelyard.operator.training.frameworks.framework import (
    Framework,
    Messages,
    Placement,
    RoleKind,
    RuleResult,
    Value,
)
from steelyard.operator.training.frameworks.success_rules import led_by, require_all, require_any
from steelyard.operator.training.model import Invalid, Scope, Tally, TrainingJob
from steelyard_common.types import Json, mapping

MASTER, WORKER = "Master", "Worker"


def environment(placement: Placement) -> Mapping[str, Value]:
    """Make the environment of a replica. Without a Master, Worker 0 takes its part."""
    leader = MASTER if MASTER in placement.job.roles else WORKER
    rank = str(
        placement.replica_id.index + (placement.count(MASTER) if placement.replica_id.role == WORKER else 0)
    )
    host, port = placement.host(leader, 0), str(placement.port(leader, 0))
    spec = placement.job.spec
    # Processes per Pod; the elastic policy's own field is the older name.
    processes = str(spec.get("nprocPerNode") or _policy(spec).get("nProcPerNode") or "auto")
    return {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": port,
        "PET_MASTER_PORT": port,
        "MASTER_ADDR": host,
        "PET_MASTER_ADDR": host,
        "WORLD_SIZE": str(placement.job.total * (int(processes) if processes.isdecimal() else 1)),
        "RANK": rank,
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": processes,
        **(
            _elastic(placement, policy)
            if (policy := _policy(placement.job.spec))
            else {"PET_NNODES": str(placement.job.total)}
        ),
    }


def _policy(spec: Json) -> Json:
    return mapping(spec, "elasticPolicy")


def _elastic(placement: Placement, policy: Json) -> Json:
    """Make the variables by which `torchrun` lets workers come and go.

    A missing bound equals the other one, or the number of workers.
    """
    workers = placement.count(WORKER)
    low = policy.get("minReplicas", policy.get("maxReplicas", workers))
    high = policy.get("maxReplicas", policy.get("minReplicas", workers))
    host = policy.get("rdzvHost") or placement.host(WORKER, 0)
    variables = {
        "PET_RDZV_ENDPOINT": f"{host}:{policy.get('rdzvPort') or placement.port(WORKER, 0)}",
        "PET_RDZV_BACKEND": policy.get("rdzvBackend") or "c10d",
        "PET_NNODES": f"{low}:{high}",
    }
    if policy.get("maxRestarts") is not None:
        variables["PET_MAX_RESTARTS"] = str(policy["maxRestarts"])
    if policy.get("rdzvId") is not None:
        variables["PET_RDZV_ID"] = policy["rdzvId"]
    if policy.get("rdzvConf"):
        variables["PET_RDZV_CONF"] = ",".join(
            f"{setting['key']}={setting['value']}" for setting in policy["rdzvConf"]
        )
    return {**variables, "PET_STANDALONE": ""} if policy.get("standalone") else variables


def success_rule(job: TrainingJob, tally: Tally) -> RuleResult:
    """Return the success rule: the Master has succeeded. Without a Master: all Workers, or one of an elastic job."""
    workers = require_any(WORKER) if _policy(job.spec) else require_all(WORKER)
    return led_by((MASTER,), workers)(job, tally)


def scope(role: RoleKind, present: Collection[str], spec: Json) -> Scope:
    """Return what restarts with a failed replica: itself alone in an elastic job, where `torchrun` lets it rejoin."""
    return "Pod" if role.name == WORKER and _policy(spec) else role.scope


def check(job: TrainingJob) -> None:
    """Check what spans several fields, which the schema cannot do."""
    policy = _policy(job.spec)
    if policy and WORKER not in job.roles:
        raise Invalid("spec.elasticPolicy", "there is no replica type Worker that could be elastic")
    low, high = policy.get("minReplicas"), policy.get("maxReplicas")
    if low is not None and high is not None and low > high:
        raise Invalid("spec.elasticPolicy.minReplicas", f"{low} is more than maxReplicas, {high}")
    if job.spec.get("nprocPerNode") and policy.get("nProcPerNode"):
        raise Invalid(
            "spec.elasticPolicy.nProcPerNode", "spec.nprocPerNode says it already; give one of them"
        )


PYTORCH = Framework(
    kind="PyTorchJob",
    label="pytorchjob-controller",
    specs="pytorchReplicaSpecs",
    roles=(RoleKind(MASTER, minimum=1, maximum=1), RoleKind(WORKER, minimum=1)),
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    environment=environment,
    success_rule=success_rule,
    masters=(MASTER,),
    restart="OnFailure",
    scalable=WORKER,
    messages_without_master=Messages(
        running="{kind} {namespace}/{name} is running.",
        succeeded="{kind} {namespace}/{name} successfully completed.",
    ),
    scope=scope,
    check=check,
)
