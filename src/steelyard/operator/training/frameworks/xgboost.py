"""XGBoostJob: a tracker's address and ranks for XGBoost, the list of workers for LightGBM."""

from collections.abc import Mapping

from steelyard.operator.training.frameworks.framework import Framework, Placement, RoleKind, Value
from steelyard.operator.training.frameworks.success_rules import all_of, led_by

MASTER, WORKER = "Master", "Worker"


def environment(at: Placement) -> Mapping[str, Value]:
    rank = at.place.index + (at.count(MASTER) if at.place.role == WORKER else 0)
    found = {
        "MASTER_PORT": str(at.port(MASTER, 0)),
        "MASTER_ADDR": at.host(MASTER, 0),
        "WORLD_SIZE": str(at.job.total),
        "RANK": str(rank),
        "PYTHONUNBUFFERED": "1",
    }
    if at.count(WORKER) == 0:
        return found
    return {**found, "WORKER_PORT": str(at.port(WORKER, 0)), "WORKER_ADDRS": ",".join(at.hosts(WORKER))}


XGBOOST = Framework(
    kind="XGBoostJob",
    label="xgboostjob-controller",
    specs="xgbReplicaSpecs",
    roles=(RoleKind(MASTER, minimum=1, maximum=1, required=True), RoleKind(WORKER)),
    container="xgboost",
    port_name="xgboostjob-port",
    port=9999,
    environment=environment,
    standing=led_by((MASTER,), all_of(WORKER)),
    masters=(MASTER,),
)
