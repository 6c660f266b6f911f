"""Specs with any content: a reconciliation never raises, and a condition names the field that cannot be read."""

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.operator.settings import OperatorSettings, TrainingSettings
from steelyard.operator.training import events
from steelyard.operator.training.conditions import holds
from steelyard.operator.training.dl_job import reconcile
from steelyard.operator.training.observed.ownership import observe
from steelyard.operator.training.simulation.job_simulation import BEGIN, make_job
from steelyard_common.types import Json
from steelyard_kube.times import format_time

Path = tuple[str | int, ...]
SETTINGS = OperatorSettings(
    storage="file:///storage", training=TrainingSettings(outputs="/outputs", gang_scheduler="coscheduler")
)
TEMPLATE: Json = {
    "metadata": {"labels": {"team": "a"}, "annotations": {"why": "not"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "train",
                "command": ["run"],
                "args": ["--fast"],
                "env": [{"name": "A", "value": "1"}],
                "ports": [{"name": "main", "containerPort": 99}],
                "volumeMounts": [{"name": "work", "mountPath": "/work"}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
            }
        ],
        "initContainers": [{"name": "first"}],
        "volumes": [{"name": "work", "emptyDir": {}}],
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "schedulerName": "mine",
        "serviceAccountName": "me",
    },
}
POLICY: Json = {
    "cleanPodPolicy": "All",
    "ttlSecondsAfterFinished": 9,
    "activeDeadlineSeconds": 9,
    "backoffLimit": 9,
    "suspend": False,
    "schedulingPolicy": {
        "minAvailable": 1,
        "queue": "q",
        "minResources": {"cpu": "1"},
        "priorityClass": "p",
        "scheduleTimeoutSeconds": 9,
    },
}
ROLE: Json = {"replicas": 1, "template": TEMPLATE, "restartPolicy": "OnFailure"}
RULE: Json = {
    "action": "Fail",
    "exitCodes": [1],
    "signals": [9],
    "reasons": ["Error"],
    "pattern": "no",
    "roles": ["worker"],
    "scope": "Pod",
    "counted": True,
}
DEFINITION: Json = {
    "port": 99,
    "roles": [{"name": "lead"}, {"name": "worker", "minimum": 1, "maximum": 2, "default": 1}],
    "environment": [{"name": "A", "value": "${rank}", "roles": ["worker"]}],
}


def job(kind: str, spec: Json) -> Json:
    made = make_job(kind if kind != "DLJob" else "PyTorchJob")
    version = "dyff.io/v1alpha1" if kind == "DLJob" else "kubeflow.org/v1"
    return {**made, "apiVersion": version, "kind": kind, "spec": {"runPolicy": POLICY, **spec}}


def with_main(name: str) -> Json:
    role = deepcopy(ROLE)
    role["template"]["spec"]["containers"][0]["name"] = name
    return role


ELASTIC: Json = {
    "minReplicas": 1,
    "maxReplicas": 2,
    "maxRestarts": 3,
    "metrics": [{"type": "Resource"}],
    "rdzvPort": 99,
    "rdzvHost": "host",
    "rdzvId": "id",
    "rdzvConf": [{"key": "a", "value": "b"}],
    "standalone": True,
}
LEAN = {"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "train"}]}}}
JOBS = (
    job("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": with_main("pytorch")}, "elasticPolicy": ELASTIC}),
    job("TFJob", {"tfReplicaSpecs": {"Worker": with_main("tensorflow")}, "enableDynamicWorker": True}),
    job("MPIJob", {"mpiReplicaSpecs": {"Launcher": ROLE, "Worker": deepcopy(ROLE)}, "slotsPerWorker": 1}),
    job(
        "DLJob",
        {
            "frameworkSpec": DEFINITION,
            "roles": {
                "lead": LEAN,
                "worker": {**deepcopy(LEAN), "dependsOn": [{"role": "lead", "condition": "Ready"}]},
            },
            "restartScope": "Job",
            "failureRules": [RULE],
            "successPolicy": {"roles": ["worker"], "count": 1},
            "outputs": {"model": {"name": "digits", "path": "/out", "role": "worker"}},
        },
    ),
)


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from paths(child, (*path, key))


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def replaced(resource: Json, path: Path, value: object) -> Json:
    changed = deepcopy(resource)
    at(changed["spec"], path[:-1])[path[-1]] = value
    return changed


def named(path: Path) -> str:
    return "spec" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def lived(resource: Json) -> Json:
    """The status after the Pods have been made, have failed, and the job has started again."""
    pods, objects, now = dict[str, Json](), dict[tuple[str, str], Json](), BEGIN
    for look in range(6):
        children = observe(resource, objects.values(), pods.values())
        want = reconcile(resource, children, now, SETTINGS)
        json.dumps(want.create)
        list(events.status_events(resource, resource.get("status") or {}, want.status))
        for child in want.create:
            metadata = {**child["metadata"], "uid": f"uid-{look}", "resourceVersion": "1"}
            made = {**child, "metadata": metadata, "status": {"phase": "Running"}}
            kind, name = child["kind"], child["metadata"]["name"]
            (pods if kind == "Pod" else objects)[name if kind == "Pod" else (kind, name)] = made  # type: ignore[index]
        for child in want.delete:
            pods.pop(child["metadata"]["name"], None)
        resource, now = {**resource, "status": want.status}, now + timedelta(seconds=1)
        if look == 3:
            for pod in pods.values():
                name = pod["spec"]["containers"][0]["name"]
                ended = {"exitCode": 137, "finishedAt": format_time(now)}
                state = {"name": name, "state": {"terminated": ended}}
                pod["status"] = {"phase": "Failed", "containerStatuses": [state]}
    status: Json = resource["status"]
    return status


def refusal(status: Json) -> str:
    failed = [condition for condition in status["conditions"] if condition["type"] == "Failed"]
    return str(failed[0]["message"]) if failed and failed[0]["reason"].endswith("FailedValidation") else ""


UNREAD = {"emptyDir", "type", "cpu", "memory"}
"""Fields of others, and quantities, which are texts or numbers."""
WRONG = ("text", 7, 1.5, True, ["x"], {"x": "y"})


@pytest.mark.parametrize("resource", JOBS, ids=lambda job: job["kind"])
def test_a_field_of_another_type_is_named(resource: Json) -> None:
    assert not refusal(lived(resource))
    for path in paths(resource["spec"]):
        if path[-1] in UNREAD:
            continue
        for value in WRONG:
            if type(value) is not type(at(resource["spec"], path)):
                said = refusal(reconcile(replaced(resource, path, value), *NOTHING).status)
                where = named(path).replace("[0]", "")
                assert said.replace("[0]", "").startswith(where) or definition(said, path), (
                    path,
                    value,
                    said,
                )


NOTHING = (observe(JOBS[0], (), ()), BEGIN, SETTINGS)


def definition(said: str, path: Path) -> bool:
    """A framework's own definition, which `frameworks/definition.py` reads, is blamed as a whole if it is not a
    definition."""
    return path[0] == "frameworkSpec" and said.startswith("spec.frameworkSpec")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("runPolicy", "activeDeadlineSeconds"), 2**63),
        (("runPolicy", "ttlSecondsAfterFinished"), 2**31),
        (("runPolicy", "backoffLimit"), 2**31),
        (("runPolicy", "schedulingPolicy", "minAvailable"), 2**31),
        (("pytorchReplicaSpecs", "Worker", "replicas"), 2**31),
        (("pytorchReplicaSpecs", "Worker", "replicas"), 10_001),
        (("elasticPolicy", "maxReplicas"), 2**31),
    ],
)
def test_a_number_out_of_bounds_is_named(path: Path, value: int) -> None:
    assert refusal(lived(replaced(JOBS[0], path, value))).startswith(named(path))


def test_the_longest_deadline_is_none() -> None:
    endless = replaced(JOBS[0], ("runPolicy", "activeDeadlineSeconds"), 2**63 - 1)
    endless = replaced(endless, ("runPolicy", "ttlSecondsAfterFinished"), 2**31 - 1)
    status = lived(endless)
    assert not holds(status["conditions"], "Failed")
    ended = {"type": "Succeeded", "status": "True", "reason": "", "message": ""}
    done = {**status, "conditions": [ended], "completionTime": format_time(BEGIN)}
    want = reconcile({**endless, "status": done}, *NOTHING)
    assert want.requeue_at is None or want.requeue_at > BEGIN
    assert not want.delete_resource


@pytest.mark.parametrize("amount", ["many", "1Gib", "", "1e", [1]])
def test_a_quantity_that_is_none_is_named(amount: object) -> None:
    path = (
        "pytorchReplicaSpecs",
        "Worker",
        "template",
        "spec",
        "containers",
        0,
        "resources",
        "limits",
        "memory",
    )
    job = replaced(replaced(JOBS[0], path, amount), ("runPolicy", "schedulingPolicy"), {})
    assert refusal(lived(job)).startswith(named(path))


OPTIONAL = {
    *("metadata", "env", "ports", "volumeMounts", "resources", "initContainers", "volumes", "hostNetwork"),
    *("runPolicy", "schedulingPolicy", "elasticPolicy", "minReplicas", "maxReplicas", "slotsPerWorker"),
    *("dependsOn", "failureRules", "successPolicy", "outputs"),
}


@pytest.mark.parametrize("resource", JOBS, ids=lambda job: job["kind"])
def test_a_null_counts_as_absent(resource: Json) -> None:
    optional = {path[-1]: path for path in paths(resource["spec"]) if path[-1] in OPTIONAL}
    for path in optional.values():
        absent = deepcopy(resource)
        del at(absent["spec"], path[:-1])[path[-1]]
        assert lived(replaced(resource, path, None)) == lived(absent), path


def test_what_is_nested_without_end_is_refused() -> None:
    value: object = "x"
    for _ in range(2000):
        value = [value]
    assert "is nested more than" in refusal(lived(replaced(JOBS[0], ("runPolicy", "more"), value)))
    rules = {**JOBS[0], "metadata": {**JOBS[0]["metadata"], "annotations": {}}}
    rules["metadata"]["annotations"]["steelyard/failure-rules"] = "[" * 100_000
    assert "steelyard/failure-rules]: is not JSON" in refusal(lived(rules))


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
PLACES = st.one_of(*(st.tuples(st.just(job), st.sampled_from(list(paths(job["spec"])))) for job in JOBS))


@given(PLACES, ANYTHING)
@settings(deadline=None, derandomize=True)
def test_whatever_a_field_holds_the_job_has_a_status(location: tuple[Json, Path], value: object) -> None:
    resource, path = location
    status = lived(replaced(resource, path, value))
    assert status["conditions"]
