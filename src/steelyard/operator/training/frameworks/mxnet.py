"""MXJob: what ps-lite needs to bring scheduler, servers and workers together, and MX_CONFIG."""

import json
from collections.abc import Mapping

from steelyard.operator.training.frameworks.framework import Framework, Placement, RoleKind, RuleResult, Value
from steelyard.operator.training.frameworks.success_rules import led_by, require_all
from steelyard.operator.training.model import Tally, TrainingJob
from steelyard_common.types import sequence
from steelyard_kube.objects import read_annotations

SCHEDULER, SERVER, WORKER = "Scheduler", "Server", "Worker"
TRACKER, TUNER_SERVER, TUNER = "TunerTracker", "TunerServer", "Tuner"
TUNER_SERVER_KEY = "tuner-server-key"
"""Annotation of a template: its value goes into MX_CONFIG's labels."""


def environment(placement: Placement) -> Mapping[str, Value]:
    """DMLC_USE_KUBERNETES lets the scheduler listen on all addresses, because its own name is its Service's."""
    scheduled = SCHEDULER in placement.job.roles
    variables: dict[str, Value] = {
        "MX_CONFIG": _config(placement),
        "DMLC_PS_ROOT_PORT": str(placement.port(SCHEDULER, 0) if scheduled else 0),
        "DMLC_PS_ROOT_URI": placement.host(SCHEDULER, 0) if scheduled else "",
        "DMLC_NUM_SERVER": str(placement.count(SERVER)),
        "DMLC_NUM_WORKER": str(placement.count(WORKER)),
        "DMLC_ROLE": placement.replica_id.role.lower(),
        "DMLC_USE_KUBERNETES": "1",
    }
    if placement.replica_id.role == WORKER:
        variables["DMLC_WORKER_ID"] = str(placement.replica_id.index)
    if placement.replica_id.role in (SERVER, WORKER) and not _interface_given(placement):
        variables["DMLC_NODE_HOST"] = {"fieldRef": {"fieldPath": "status.podIP"}}
    return variables


def _config(placement: Placement) -> str:
    names = sorted(placement.job.roles, key=str.lower)
    cluster = {
        name.lower(): [
            {"url": host, "port": port}
            for host, port in zip(placement.hosts(name), placement.job.ports[name], strict=True)
        ]
        for name in names
    }
    templates = {name.lower(): placement.job.roles[name].template for name in names}
    labels = {
        name: str(read_annotations(template).get(TUNER_SERVER_KEY, ""))
        for name, template in templates.items()
    }
    task = {"type": placement.replica_id.role.lower(), "index": placement.replica_id.index}
    return json.dumps({"cluster": cluster, "labels": labels, "task": task}, separators=(",", ":"))


def _interface_given(placement: Placement) -> bool:
    """Return whether the user names a network interface; the address that we would give goes before it in ps-lite."""
    containers = placement.role.template["spec"]["containers"]
    return any(
        variable["name"] == "DMLC_INTERFACE" for one in containers for variable in sequence(one, "env")
    )


def success_rule(job: TrainingJob, tally: Tally) -> RuleResult:
    """The Scheduler decides, it ends when all Workers have; a tuning job ends with its Tuner."""
    tuning = job.spec.get("jobMode") == "MXTune"
    return led_by((TUNER,) if tuning else (SCHEDULER,), require_all(WORKER))(job, tally)


MXNET = Framework(
    kind="MXJob",
    label="mxjob-controller",
    specs="mxReplicaSpecs",
    roles=tuple(RoleKind(name) for name in (SCHEDULER, SERVER, WORKER, TRACKER, TUNER_SERVER, TUNER)),
    container="mxnet",
    port_name="mxjob-port",
    port=9091,
    environment=environment,
    success_rule=success_rule,
)
