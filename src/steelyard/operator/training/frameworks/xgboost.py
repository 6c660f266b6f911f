"""XGBoostJob: a tracker's address and ranks for XGBoost, the list of workers for LightGBM."""

from collections.abc import Mapping

from steelyard.operator.training.frameworks.framework import Framework, Placement, RoleKind, Value
from steelyard.operator.training.frameworks.success_rules import led_by, require_all

MASTER, WORKER = "Master", "Worker"


def environment(placement: Placement) -> Mapping[str, Value]:
    rank = placement.replica_id.index + (
        placement.count(MASTER) if placement.replica_id.role == WORKER else 0
    )
    variables = {
        "MASTER_PORT": str(placement.port(MASTER, 0)),
        "MASTER_ADDR": placement.host(MASTER, 0),
        "WORLD_SIZE": str(placement.job.total),
        "RANK": str(rank),
        "PYTHONUNBUFFERED": "1",
    }
    if placement.count(WORKER) == 0:
        return variables
    return {
        **variables,
        "WORKER_PORT": str(placement.port(WORKER, 0)),
        "WORKER_ADDRS": ",".join(placement.hosts(WORKER)),
    }


XGBOOST = Framework(
    kind="XGBoostJob",
    label="xgboostjob-controller",
    specs="xgbReplicaSpecs",
    roles=(RoleKind(MASTER, minimum=1, maximum=1, required=True), RoleKind(WORKER)),
    container="xgboost",
    port_name="xgboostjob-port",
    port=9999,
    environment=environment,
    success_rule=led_by((MASTER,), require_all(WORKER)),
    masters=(MASTER,),
)
