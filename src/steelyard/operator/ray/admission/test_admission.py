"""Rules of admission, their paths and words, and the answers to the API."""

import base64
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from steelyard.operator.ray.admission.configurations import configurations
from steelyard.operator.ray.admission.review import NotAReview, mutate, validate
from steelyard.operator.ray.admission.rules import MOST_FAULTS, QUEUE, WRAPPED, find_faults, join_faults
from steelyard.operator.ray.certificates.templates import CONTAINER, with_certificates
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json
from steelyard_kube.patches import apply_patch
from steelyard_schema.ray_annotations import CERTIFICATES

SETTINGS = RaySettings(certificates=True, admission=True)
ROOT = Path(__file__).parents[5]


def template(**container: Any) -> Json:
    return {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray", **container}]}}


def group(**fields: Any) -> Json:
    return {"groupName": "g", "minReplicas": 0, "maxReplicas": 2, "template": template(), **fields}


def make_cluster(*groups: Json, name: str = "demo", **spec: Any) -> Json:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"headGroupSpec": {"template": template()}, "workerGroupSpecs": list(groups), **spec},
    }


def make_job(**spec: Any) -> Json:
    metadata = {"name": "job", "namespace": "team"}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}


def wrapped(*templates: Json) -> Json:
    components = [{"template": part} for part in templates]
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "w", "namespace": "team"},
        "spec": {"components": components},
    }


CONTAINERS = "spec.headGroupSpec.template.spec.containers[0]"
RESOURCES = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("obj", "fault"),
    [
        (make_cluster(name="n" * 51), "metadata.name: "),
        (make_cluster(name="1st"), "metadata.name: '1st': a DNS-1035 label"),
        (
            make_cluster(group(replicas=3)),
            "spec.workerGroupSpecs[0].replicas: 3 must be between 0 (minReplicas) and 2 (maxReplicas)",
        ),
        (
            make_cluster(group(minReplicas=3)),
            "spec.workerGroupSpecs[0].maxReplicas: 2 must not be less than minReplicas, 3",
        ),
        (
            make_cluster(group(minReplicas=-1)),
            "spec.workerGroupSpecs[0].minReplicas: -1 must not be negative",
        ),
        (make_cluster(group(), group()), "spec.workerGroupSpecs[1].groupName: 'g' is the name of another"),
        (make_cluster(group(numOfHosts=0)), "spec.workerGroupSpecs[0].numOfHosts: 0 must be at least 1"),
        (
            make_cluster(group(template={"spec": {"containers": []}})),
            "spec.workerGroupSpecs[0].template.spec.containers: needs a container",
        ),
        (
            make_cluster(headGroupSpec={"template": template(image=" ")}),
            f"{CONTAINERS}.image: is required",
        ),
        (
            make_cluster(headGroupSpec={"template": template(resources=RESOURCES)}),
            f"{CONTAINERS}.resources.requests.cpu: 2 is more than the limit, 1",
        ),
        (
            make_cluster(headGroupSpec={"template": template(resources={"limits": {"memory": 5}})}),
            f"{CONTAINERS}.resources.limits.memory: 5 is less than 1 MiB: it is in bytes; do you mean 5Gi?",
        ),
        (
            make_cluster(headGroupSpec={"template": template(resources={"limits": {"cpu": "abc"}})}),
            f"{CONTAINERS}.resources.limits.cpu: 'abc' is not a quantity",
        ),
        (
            make_cluster(headGroupSpec={"template": template(env=[{"name": "1 (a)"}, {"name": "a=b"}])}),
            f"{CONTAINERS}.env[1].name: 'a=b': a valid environment variable name must consist only of printable ASCII"
            " characters other than '='",
        ),
        (
            make_cluster(
                headGroupSpec={"template": template(volumeMounts=[{"name": "v", "mountPath": "/v"}])}
            ),
            f"{CONTAINERS}.volumeMounts[0].name: 'v': there is no volume of this name",
        ),
        (
            make_cluster(headGroupSpec={"template": template(name=CONTAINER)}),
            f"{CONTAINERS}.name: '{CONTAINER}' is the platform's own",
        ),
        (
            make_cluster(gcsFaultToleranceOptions={"redisAddress": "", "externalStorageNamespace": "x"}),
            "spec.gcsFaultToleranceOptions.redisAddress: is required",
        ),
        (make_job(entrypoint="python x.py"), "spec: give either rayClusterSpec"),
        (make_job(clusterSelector={"ray.io/cluster": "a"}), "spec.entrypoint: is required"),
        (
            make_job(entrypoint="x", clusterSelector={"a": "b"}),
            "spec.clusterSelector: needs ray.io/cluster",
        ),
        (
            make_job(entrypoint="x", clusterSelector={"ray.io/cluster": "a"}, ttlSecondsAfterFinished=5),
            "spec.ttlSecondsAfterFinished: has no effect",
        ),
        (
            make_job(entrypoint="x", rayClusterSpec=make_cluster(group(replicas=9))["spec"]),
            "spec.rayClusterSpec.workerGroupSpecs[0].replicas: 9 must be between",
        ),
        (wrapped(), "spec.components: is empty"),
        (
            wrapped({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
            "spec.components[0].template.kind: v1/Namespace is not of a kind",
        ),
        (
            wrapped({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "other"}}),
            "spec.components[0].template.metadata.namespace: 'other' is not the namespace",
        ),
        (
            wrapped({"apiVersion": "v1", "kind": "Pod"}),
            "spec.components[0].template.metadata.name: is required",
        ),
        (
            wrapped(make_cluster(group(replicas=9))),
            "spec.components[0].template.spec.workerGroupSpecs[0].replicas: 9 must be between",
        ),
        (
            wrapped(make_cluster() | {"metadata": {"name": "demo", "labels": {QUEUE: "q"}}}),
            f"spec.components[0].template.metadata.labels[{QUEUE}]: belongs to the AppWrapper",
        ),
        (
            wrapped(make_cluster(group(template=template(comand=["a"])))),
            "spec.components[0].template.spec.workerGroupSpecs[0].template.spec.containers[0].comand: "
            "there is no such field; did you mean command?",
        ),
        (wrapped(make_cluster() | {"spec": {"workerGroupSpecs": 5}}), "spec: has a field of another type"),
    ],
)
def test_each_fault_has_its_path_and_its_words(obj: Json, fault: str) -> None:
    assert any(str(shown).startswith(fault) for shown in find_faults(obj)), join_faults(find_faults(obj))


@pytest.mark.parametrize(
    "obj",
    [
        make_cluster(),
        make_cluster(group(replicas=2), group(groupName="h", replicas=0)),
        make_job(entrypoint="x", clusterSelector={"ray.io/cluster": "a"}),
        make_job(entrypoint="x", rayClusterSpec=make_cluster(group())["spec"], backoffLimit=2),
        wrapped(make_cluster(group()), {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}),
        with_certificates(make_cluster(group()), SETTINGS, ""),
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "-"}},
        make_cluster() | {"metadata": {"name": "n" * 58, "ownerReferences": [{"controller": True}]}},
    ],
    ids=["head", "groups", "chosen", "own", "wrapped", "certificates", "another kind", "a job's"],
)
def test_what_works_is_accepted(obj: Json) -> None:
    assert find_faults(obj) == []


def test_an_object_that_was_kept_before_a_rule_may_change_in_other_respects() -> None:
    old = make_cluster(group(replicas=9))
    new = make_cluster(group(replicas=9), suspend=True)
    assert find_faults(new, old) == []
    worse = make_cluster(group(replicas=10))
    assert [fault.path for fault in find_faults(worse, old)] == ["spec.workerGroupSpecs[0].replicas"]


def test_certificates_are_not_taken_away_from_a_cluster() -> None:
    old = with_certificates(make_cluster(), SETTINGS, "")
    assert [fault.path for fault in find_faults(make_cluster(), old)] == [
        f"metadata.annotations[{CERTIFICATES}]"
    ]


def test_many_faults_are_counted_and_not_all_shown() -> None:
    groups = [group(groupName=f"g{number}", replicas=9) for number in range(30)]
    assert join_faults(find_faults(make_cluster(*groups))).endswith("; and 10 more")


def test_of_very_many_faults_the_first_are_looked_for() -> None:
    """Every byte of an object can cost a hundred bytes of faults, and a search for a name that is alike."""
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template()["spec"]}
    many = wrapped({**pod, **{f"f{number}": 1 for number in range(MOST_FAULTS)}})
    assert len(find_faults(many)) == MOST_FAULTS
    assert join_faults(find_faults(many)).endswith(f"; and {MOST_FAULTS - 20} more")
    more = wrapped({**pod, **{f"f{number}": 1 for number in range(1000)}})
    assert find_faults(more)[:MOST_FAULTS] == find_faults(many)
    assert len(find_faults(more)) == MOST_FAULTS + 1
    assert join_faults(find_faults(more)).endswith(f"; and more than {MOST_FAULTS - 20} more")
    # What was kept with all of them may still be changed, and a new one is found behind them.
    assert find_faults(more, more) == []
    worse = {**more, "spec": {"components": [*more["spec"]["components"], {"template": {**pod, "new": 1}}]}}
    assert "spec.components[1].template.new" in [fault.path for fault in find_faults(worse, more)]


def review(obj: Json, old: Json | None = None) -> Json:
    kind = {"group": "ray.io", "version": "v1", "kind": obj["kind"]}
    request = {"uid": "1", "kind": kind, "name": "demo", "object": obj, "oldObject": old}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def test_a_refusal_has_all_faults_as_causes() -> None:
    answer = validate(review(make_cluster(group(replicas=9), name="1st")))["response"]
    assert (answer["allowed"], answer["uid"], answer["status"]["code"]) == (False, "1", 422)
    fields = [cause["field"] for cause in answer["status"]["details"]["causes"]]
    assert fields == ["metadata.name", "spec.workerGroupSpecs[0].replicas"]
    assert validate(review(make_cluster()))["response"]["allowed"] is True


def patched(obj: Json, old: Json | None = None) -> Json:
    answer = mutate(review(obj, old), SETTINGS, "")["response"]
    assert answer["allowed"] is True
    patch = orjson.loads(base64.b64decode(answer["patch"])) if "patch" in answer else []
    return apply_patch(obj, patch)


def test_a_new_cluster_gets_certificates_and_one_that_runs_without_does_not() -> None:
    new = make_cluster(group())
    assert patched(new) == with_certificates(new, SETTINGS, "")
    assert patched(make_cluster(group(replicas=1)), new) == make_cluster(group(replicas=1))
    # A client that sends what it knows, without what was added, changes nothing of that.
    assert patched(new, patched(new)) == patched(new)


@pytest.mark.parametrize("body", [{}, {"kind": "AdmissionReview"}, {"kind": "Pod", "request": {"uid": "1"}}])
def test_what_is_no_review_is_refused(body: Json) -> None:
    with pytest.raises(NotAReview):
        validate(body)


def test_webhooks_fail_closed_for_three_kinds_alone() -> None:
    validating, mutating = configurations(SETTINGS, "", "BUNDLE")
    (hook,) = validating["webhooks"]
    resources = [resource for rule in hook["rules"] for resource in rule["resources"]]
    assert resources == ["rayclusters", "rayjobs", "appwrappers"]
    assert hook["failurePolicy"] == "Fail"
    assert {operation for rule in hook["rules"] for operation in rule["operations"]} == {"CREATE", "UPDATE"}
    (hook,) = mutating["webhooks"]
    assert hook["rules"][0]["resources"] == ["rayclusters"]
    assert hook["clientConfig"]["service"]["namespace"] == "steelyard"
    assert configurations(RaySettings(), "", "") == []


def test_the_policy_of_app_wrappers_has_the_same_kinds() -> None:
    policies = yaml.safe_load_all((ROOT / "deploy" / "policies" / "ray.yaml").read_text())
    texts = [
        variable["expression"]
        for policy in policies
        for variable in policy["spec"].get("variables", [])
        if variable["name"] == "kinds"
    ]
    assert [set(re.findall(r"'([^']+)'", text)) for text in texts] == [WRAPPED]
