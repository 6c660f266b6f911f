"""JAXJob: processes that meet at Worker 0's coordinator, for `jax.distributed.initialize`."""

from collections.abc import Mapping

from steelyard.operator.training.frameworks.framework import Framework, Placement, RoleKind, Value, Words
from steelyard.operator.training.frameworks.success_rules import all_of

WORKER = "Worker"


def environment(at: Placement) -> Mapping[str, Value]:
    return {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": str(at.port(WORKER, 0)),
        "COORDINATOR_ADDRESS": at.host(WORKER, 0),
        "NUM_PROCESSES": str(at.job.total),
        "PROCESS_ID": str(at.place.index),
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
    standing=all_of(WORKER),
    scalable=WORKER,
    words=Words(
        running="{kind} {namespace}/{name} is running.",
        succeeded="{kind} {namespace}/{name} successfully completed.",
    ),
)
