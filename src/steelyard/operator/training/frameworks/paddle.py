"""PaddleJob: where `paddle.distributed.launch` meets. With a Master it runs in parameter server mode."""

from collections.abc import Mapping

from steelyard.operator.training.frameworks.framework import Framework, Messages, Placement, RoleKind, Value
from steelyard.operator.training.frameworks.success_rules import led_by, require_all

MASTER, WORKER = "Master", "Worker"


def environment(placement: Placement) -> Mapping[str, Value]:
    leader = MASTER if MASTER in placement.job.roles else WORKER
    variables: dict[str, Value] = {
        "PYTHONUNBUFFERED": "1",
        "PADDLE_JOB_ID": placement.job.name,
        "PADDLE_NNODES": str(placement.job.total),
        **_meeting_point(placement, leader),
    }
    if leader == MASTER:
        variables["PADDLE_SERVER_NUM" if placement.replica_id.role == MASTER else "PADDLE_TRAINER_NUM"] = "1"
    return variables


def _meeting_point(placement: Placement, leader: str) -> dict[str, Value]:
    """The leader goes by its own address: the launcher there compares it with the machine's and serves if it is."""
    port = placement.port(leader, 0)
    if (placement.replica_id.role, placement.replica_id.index) != (leader, 0):
        return {"PADDLE_MASTER": f"{placement.host(leader, 0)}:{port}"}
    return {
        "POD_IP_DUMMY": {"fieldRef": {"fieldPath": "status.podIP"}},
        "PADDLE_MASTER": f"$(POD_IP_DUMMY):{port}",
    }


PADDLE = Framework(
    kind="PaddleJob",
    label="paddlejob-controller",
    specs="paddleReplicaSpecs",
    roles=(RoleKind(MASTER), RoleKind(WORKER)),
    container="paddle",
    port_name="master",
    port=36543,
    environment=environment,
    success_rule=led_by((MASTER,), require_all(WORKER)),
    masters=(MASTER,),
    restart="OnFailure",
    scalable=WORKER,
    messages_without_master=Messages(
        running="{kind} {namespace}/{name} is running.",
        succeeded="{kind} {namespace}/{name} successfully completed.",
    ),
)
