# ruff: noqa: E501 - tables are read by their rows
"""Fields that Pods and our kinds do not have: where they are found, the suggestions, and which schemas keep some."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard_common.types import Json, mapping
from steelyard_schema.definitions import find_spec_schema, load_definitions
from steelyard_schema.unknown_fields import complete, pod_template_schema, unknown_fields, unknown_pod_fields

FREE = {
    "spec.method.scores[]",
    "jsonSchema.<name>",
    "configuration.<name>",
    "metrics[].<name>",
    "template.spec.ephemeralContainers[]",
}
"""Places of specs where any field may be, by the end of their paths."""


def pod(**container: object) -> Json:
    return {"spec": {"containers": [{"name": "main", "image": "x", **container}]}}


JOB: Json = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": pod(comand=["a"])}}


@pytest.mark.parametrize(
    ("obj", "fault"),
    [
        ({"template": pod(comand=["a"])}, "template.spec.containers[0].comand: there is no such field; did you mean command?"),
        ({"template": pod(resorces={})}, "template.spec.containers[0].resorces: there is no such field; did you mean resources?"),
        ({"template": {"spec": {**pod()["spec"], "nodeSelecter": {}}}}, "template.spec.nodeSelecter: there is no such field; did you mean nodeSelector?"),
        ({"template": {"metdata": {}, **pod()}}, "template.metdata: there is no such field; did you mean metadata?"),
        ({"template": {"metadata": {"lables": {}}, **pod()}}, "template.metadata.lables: there is no such field; did you mean labels?"),
        ({"template": pod(NAME="x")}, "template.spec.containers[0].NAME: there is no such field; did you mean name?"),
        ({"template": pod(resources={"limit": {}})}, "template.spec.containers[0].resources.limit: there is no such field; did you mean limits?"),
        ({"template": pod(resources={"zzzz": {}})}, "template.spec.containers[0].resources.zzzz: there is no such field; there are claims, limits, requests"),
        ({"template": pod(env=[{"name": "A", "valueFrom": {"secretRef": {}}}])}, "template.spec.containers[0].env[0].valueFrom.secretRef: there is no such field; did you mean secretKeyRef?"),
        ({"head": [{"template": pod(comand=[])}]}, "head[0].template.spec.containers[0].comand: there is no such field; did you mean command?"),
        ({"submitterPodTemplate": pod(comand=[])}, "submitterPodTemplate.spec.containers[0].comand: there is no such field; did you mean command?"),
        ({"apiVersion": "v1", "kind": "Pod", **pod(comand=[])}, "spec.containers[0].comand: there is no such field; did you mean command?"),
        ([{"template": JOB}], "[0].template.spec.template.spec.containers[0].comand: there is no such field; did you mean command?"),
        ([{"template": {"apiVersion": "v1", "kind": "Pod", **pod(comand=[])}}], "[0].template.spec.containers[0].comand: there is no such field; did you mean command?"),
    ],
)  # fmt: skip
def test_a_field_that_pods_do_not_have_is_found_with_its_path(obj: object, fault: str) -> None:
    assert [str(field) for field in unknown_pod_fields(obj)] == [fault]


@pytest.mark.parametrize(
    "obj",
    [
        {"template": pod(resources={"limits": {"nvidia.com/gpu": 1}}, securityContext={"runAsUser": 1})},
        {"template": {"metadata": {"labels": {"comand": "a"}, "annotations": {"b": "c"}}, **pod()}},
        {"template": {"spec": {**pod()["spec"], "nodeSelector": {"comand": "x"}}}},
        {"data": {"template": "text"}, "values": [None, 1, "spec"]},
        {"template": "a text"},
        {"template": {"spec": {"comand": "of a kind without Pods"}}},
    ],
)
def test_what_pods_have_and_what_is_no_pod_is_left_alone(obj: object) -> None:
    assert list(unknown_pod_fields(obj)) == []


def test_directives_of_a_patch_are_no_fields() -> None:
    patch = {"spec": {"$patch": "replace", "containers": [{"$patch": "delete", "name": "a"}]}}
    assert list(unknown_fields(pod_template_schema(), patch, "")) == []


@pytest.mark.parametrize("definition", load_definitions(), ids=lambda crd: str(crd["metadata"]["name"]))
def test_specs_keep_no_unknown_field_but_where_any_is_meant(definition: Json) -> None:
    (version,) = definition["spec"]["versions"]
    kept = set(_free(version["schema"]["openAPIV3Schema"]["properties"]["spec"], "spec"))
    assert not [path for path in kept if not path.endswith(tuple(FREE))]


def _free(node: Json, path: str) -> Iterator[str]:
    if node.get("x-kubernetes-preserve-unknown-fields"):
        yield path
    for name, field in mapping(node, "properties").items():
        yield from _free(field, f"{path}.{name}")
    for word, suffix in (("items", "[]"), ("additionalProperties", ".<name>")):
        if isinstance(node.get(word), dict):
            yield from _free(node[word], f"{path}{suffix}")


def test_a_completed_schema_keeps_no_unknown_field() -> None:
    own: Json = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Name."}},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    published = {
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "image": {"type": "string"}},
    }
    complete(own, published)
    assert own == {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Name."}, "image": {"type": "string"}},
        "required": ["name"],
    }


def test_an_unknown_field_of_any_kind_is_found_beside_the_templates() -> None:
    job: Json = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    (field,) = unknown_fields(find_spec_schema(job), {"runPolicy": {"backofLimit": 1}}, "spec")
    assert str(field) == "spec.runPolicy.backofLimit: there is no such field; did you mean backoffLimit?"
    assert list(unknown_fields(find_spec_schema({"apiVersion": "v1", "kind": "Pod"}), {"a": 1}, "spec")) == []
    assert find_spec_schema({"apiVersion": ["v1"], "kind": {}}) == {}
    assert find_spec_schema({**job}) is find_spec_schema(job), "all definitions are read for every object"


def test_a_definition_is_small_enough_for_the_annotation_of_kubectl() -> None:
    """`kubectl apply` writes each object into an annotation, which has 256 KiB."""
    text = Path(__file__).with_name("definitions.jsonl").read_text()
    assert max(map(len, text.splitlines())) < 128 << 10
