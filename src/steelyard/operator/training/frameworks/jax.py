"""JAXJob: processes that meet at Worker 0's coordinator, for `jax.distributed.initialize`."""

from collections.abc import Mapping

from steelyard.operator.training.frameworks.framework import Framework, Messages, Placement, RoleKind, Value
from steelyard.operator.training.frameworks.success_rules import require_all

WORKER = "Worker"


def environment(placement: Placement) -> Mapping[str, Value]:
    return {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": str(placement.port(WORKER, 0)),
        "COORDINATOR_ADDRESS": placement.host(WORKER, 0),
        "NUM_PROCESSES": str(placement.job.total),
        "PROCESS_ID": str(placement.replica_id.index),
    }


JAX = Framework(
    kind="JAXJob",
    label="jaxjob-controller",
    specs="jaxReplicaSpecs",
    roles=(RoleKind(WORKER, minimum=1, required=True),),
    container="jax",
    port_name="jaxjob-port",
    port=6666,
    environment=environment,
    success_rule=require_all(WORKER),
    scalable=WORKER,
    messages=Messages(
        running="{kind} {namespace}/{name} is running.",
        succeeded="{kind} {namespace}/{name} successfully completed.",
    ),
)
