"""Parsing of jobs, and refusals: each names the field and what is allowed."""

import json
import re
from typing import Any

import pytest

from steelyard.operator.training import dl_job
from steelyard.operator.training.frameworks import ALL
from steelyard.operator.training.model import Invalid, TrainingJob
from steelyard.operator.training.parse import parse_job
from steelyard.operator.training.simulation.job_simulation import SETTINGS, make_job, make_template
from steelyard.operator.training.validate import check
from steelyard_common.types import Json


def read(job: Json) -> TrainingJob:
    return parse_job(job, ALL[job["kind"]], SETTINGS)


def of_types(types: Json, kind: str = "PyTorchJob", **more: Any) -> Json:
    job = make_job(kind)
    return {**job, "spec": {ALL[kind].specs: types, **more}}


ONE = {"template": make_template("pytorch")}


@pytest.mark.parametrize("kind", ALL)
def test_a_field_that_pods_do_not_have_fails_a_new_job_and_no_other(kind: str) -> None:
    job = make_job(kind, {ALL[kind].roles[-1].name: 1, ALL[kind].roles[0].name: 1}, jobMode="MXTrain")
    name, role = next(iter(job["spec"][ALL[kind].specs].items()))
    role["template"]["spec"]["containers"][0]["comand"] = ["train"]
    field = f"spec.{ALL[kind].specs}.{name}.template.spec.containers[0].comand"
    with pytest.raises(Invalid, match=re.escape(f"{field}: there is no such field; did you mean command?")):
        dl_job.read(job, SETTINGS)
    begun = {"type": "Created", "status": "True", "reason": f"{kind}Created", "message": ""}
    dl_job.read({**job, "status": {"conditions": [begun]}}, SETTINGS)


@pytest.mark.parametrize(
    ("kind", "replicas", "size"),
    [("PyTorchJob", 10_000, 20_000), ("PyTorchJob", 100, 2_000_000), ("TFJob", 3000, 0), ("MXJob", 3000, 0)],
    ids=["a template", "a large template", "addresses in TensorFlow", "addresses in MXNet"],
)
def test_pods_that_are_too_large_together_are_refused_before_the_first(
    kind: str, replicas: int, size: int
) -> None:
    job = make_job(kind, {"Worker": replicas}, jobMode="MXTrain")
    worker = job["spec"][ALL[kind].specs]["Worker"]
    worker["template"]["metadata"] = {"annotations": {"a": "x" * size}}
    fault = rf"spec.{ALL[kind].specs}.Worker.replicas: is too large: {replicas} Pods of \d+ bytes, .* at most 134217728"
    with pytest.raises(Invalid, match=fault):
        dl_job.read(job, SETTINGS)
    worker["replicas"] = replicas // 5
    dl_job.read(job, SETTINGS)


def test_replica_types_are_read_in_any_case_and_in_the_frameworks_order() -> None:
    job = read(of_types({"WORKER": {**ONE, "replicas": 2}, "master": ONE}))
    assert [(role.name, role.count) for role in job.roles.values()] == [("Master", 1), ("Worker", 2)]


def test_defaults_are_those_of_v1() -> None:
    job = read(of_types({"Worker": ONE}))
    assert (job.roles["Worker"].restart, job.policy.clean_pods) == ("OnFailure", "None")
    assert read(make_job("TFJob", {"Worker": 1})).roles["Worker"].restart == "Never"
    assert (job.policy.backoff_limit, job.policy.ttl, job.policy.deadline) == (None, None, None)


@pytest.mark.parametrize(
    ("kind", "replicas", "spec", "scopes"),
    [
        pytest.param("TFJob", {"Worker": 2}, {}, {"Worker": "Job"}, id="workers that wait for one another"),
        pytest.param(
            "TFJob", {"PS": 1, "Worker": 2}, {}, {"PS": "Job", "Worker": "Pod"}, id="workers of servers"
        ),
        pytest.param("PyTorchJob", {"Worker": 2}, {"elasticPolicy": {}}, {"Worker": "Job"}, id="no policy"),
        pytest.param("MXJob", {"Worker": 1}, {}, {"Worker": "Job"}, id="MXNet hangs otherwise"),
    ],
)
def test_what_starts_again_is_the_frameworks_to_say(
    kind: str, replicas: dict[str, int], spec: Json, scopes: dict[str, str]
) -> None:
    roles = read(make_job(kind, replicas, restart="ExitCode", **spec)).roles
    assert {name: roles[name].scope for name in scopes} == scopes


@pytest.mark.parametrize("restart", ["Always", "OnFailure"])
def test_what_the_kubelet_restarts_starts_alone_unless_more_is_asked_for(restart: str) -> None:
    assert read(make_job(restart=restart)).roles["Worker"].scope == "Pod"
    job = make_job(restart=restart, annotations={"steelyard/restart-scope": "Job"})
    assert read(job).roles["Worker"].scope == "Job"


def test_rules_come_as_json_in_an_annotation() -> None:
    rules = [
        {"action": "Fail", "exitCodes": [3]},
        {"action": "Restart", "reasons": ["OOMKilled"], "counted": False},
    ]
    job = read(make_job(annotations={"steelyard/failure-rules": json.dumps(rules)}))
    assert [(rule.action, rule.exit_codes, rule.counted) for rule in job.rules] == [
        ("Fail", (3,), True),
        ("Restart", (), False),
    ]


def scoped(scope: str) -> Json:
    return make_job(annotations={"steelyard/restart-scope": scope})


def ruled(text: str) -> Json:
    return make_job(annotations={"steelyard/failure-rules": text})


SPECS = "spec.pytorchReplicaSpecs"


@pytest.mark.parametrize(
    ("job", "messages"),
    [
        pytest.param(
            of_types({"Boss": ONE}), f"{SPECS}.Boss: no such replica type; there are Master", id="type"
        ),
        pytest.param(
            of_types({"Worker": ONE, "worker": ONE}), f"{SPECS}.worker: the replica type", id="twice"
        ),
        pytest.param(of_types({}), f"{SPECS}: has to have at least one replica type of Master", id="none"),
        pytest.param({**make_job(), "spec": {}}, f"{SPECS}: is required", id="no types"),
        pytest.param(
            of_types({"Worker": {"template": {"spec": {"containers": []}}}}),
            f"{SPECS}.Worker.template.spec.containers: has to have",
            id="no container",
        ),
        pytest.param(
            of_types({"Worker": {"template": make_template("main")}}),
            f"{SPECS}.Worker.template.spec.containers: one of them has to be named pytorch; there are main",
            id="no container of the framework's name",
        ),
        pytest.param(
            of_types({"Worker": {"template": {"spec": {"containers": [{"name": "pytorch"}]}}}}),
            f"{SPECS}.Worker.template.spec.containers[0].image: is required",
            id="no image",
        ),
        pytest.param(
            of_types({"Worker": {**ONE, "replicas": -1}}),
            f"{SPECS}.Worker.replicas: has to be",
            id="less than none",
        ),
        pytest.param(
            of_types({"Master": {**ONE, "replicas": 2}}),
            "Master.replicas: has to be at most 1, not 2",
            id="two masters",
        ),
        pytest.param(
            make_job(restart="Sometimes"), "restartPolicy: has to be one of Always, OnFailure", id="policy"
        ),
        pytest.param(
            make_job(policy={"cleanPodPolicy": "Most"}), "spec.runPolicy.cleanPodPolicy", id="clean"
        ),
        pytest.param(make_job(policy={"backoffLimit": "3"}), "spec.runPolicy.backoffLimit", id="limit"),
        pytest.param(
            make_job(policy={"schedulingPolicy": {"minAvailable": -1}}),
            "minAvailable: has to be a whole number from 0 to 2147483647, not -1",
            id="gang",
        ),
        pytest.param(scoped("Node"), "has to be one of Pod, ReplicaType, Job, not 'Node'", id="scope"),
        pytest.param(ruled("{"), "steelyard/failure-rules]: is not JSON", id="rules that are no JSON"),
        pytest.param(
            ruled('[{"action": "Sing"}]'),
            "[0].action: should be 'Restart', 'Fail' or 'Ignore', not 'Sing'",
            id="action",
        ),
        pytest.param(
            ruled('[{"action": "Fail", "pattern": "("}]'),
            "metadata.annotations[steelyard/failure-rules][0].pattern: '(' is not a regular",
            id="pattern",
        ),
        pytest.param(
            ruled('[{"action": "Fail", "pattern": "(?=a)"}]'), "look-around", id="an expression too clever"
        ),
        pytest.param(
            ruled('[{"action": "Fail", "roles": ["PS"]}]'),
            "the job has no replica type 'PS'; it has",
            id="rule's role",
        ),
        *(
            pytest.param(
                of_types({"Worker": {"template": {**ONE["template"], "metadata": {"labels": labels}}}}),
                f"{SPECS}.Worker.template.metadata.labels[{next(iter(labels))}]: is a label of the platform's",
                id=f"label {next(iter(labels))}",
            )
            for labels in (
                {"steelyard/entity": "x1"},
                {"steelyard/owner-uid": "uid-1"},
                {"dyff.io/entity": "x1"},
                {"app.kubernetes.io/component": "client"},
                {"app.kubernetes.io/managed-by": "steelyard-operator"},
            )
        ),
        pytest.param(make_job(name="0-test"), "metadata.name: '0-test' is not a DNS label", id="name"),
        pytest.param(
            make_job("XGBoostJob", {"Worker": 1}), "spec.xgbReplicaSpecs.Master: is required", id="no master"
        ),
    ],
)
def test_what_cannot_run_is_refused(job: Json, messages: str) -> None:
    with pytest.raises(Invalid) as refused:
        check(read(job))
    assert messages in str(refused.value)


def test_a_template_may_have_labels_of_its_users() -> None:
    labels = {"team": "a", "app.kubernetes.io/component": "trainer", "app.kubernetes.io/managed-by": "argo"}
    check(read(of_types({"Worker": {"template": {**ONE["template"], "metadata": {"labels": labels}}}})))


def test_no_replica_type_waits_for_itself() -> None:
    waits = {"dependsOn": [{"role": "Worker"}]}
    with pytest.raises(Invalid, match="Worker would wait for itself"):
        check(read(of_types({"Worker": {**ONE, **waits}})))


@pytest.mark.parametrize("resources", ["all", {"requests": "all"}, {"limits": ["cpu"]}])
def test_resources_of_another_shape_are_refused_and_not_taken_for_none(resources: Any) -> None:
    template = make_template("pytorch")
    template["spec"]["containers"][0]["resources"] = resources
    with pytest.raises(Invalid, match=r"containers\[0\].*resources.* has to be an object, not "):
        check(read(of_types({"Worker": {"template": template}})))
