"""Jobs of the list form become jobs of `kubeflow.org/v1`, or a word about what is wrong with them."""

from typing import Any

import pytest
import yaml

from steelyard.clusters.training.convert import convert
from steelyard.clusters.training.errors import BadJob
from steelyard_schema.training.kubeflow import MXJobSpec, TFJobSpec

LIST = """
apiVersion: example.dev/v1beta1
kind: mxjob
metadata: {name: digits, namespace: team, resourceVersion: "7"}
spec:
- replicaType: scheduler
  replicas: 1
  PsRootPort: 9000
  template: {spec: {containers: [{name: main, image: mx:1, command: [python, train.py]}], restartPolicy: Never}}
- replica_type: SERVER
  template: {spec: {containers: [{name: mxnet, image: mx:1}]}}
- type: worker
  replicas: 2
  image: mx:1
  command: python train.py
  env: {DMLC_ROLE: worker, EPOCHS: 3}
  resources: {limits: {cpu: 1}}
  colour: red
"""


def test_a_list_of_replicas_becomes_an_mxjob() -> None:
    made = convert(yaml.safe_load(LIST))
    job = made.resource
    MXJobSpec.parse(job["spec"])
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "MXJob")
    assert job["metadata"] == {"name": "digits", "namespace": "team"}
    assert job["spec"]["jobMode"] == "MXTrain"
    specs = job["spec"]["mxReplicaSpecs"]
    assert {name: spec["replicas"] for name, spec in specs.items()} == {
        "Scheduler": 1,
        "Server": 1,
        "Worker": 2,
    }
    scheduler, worker = (specs[name]["template"]["spec"]["containers"][0] for name in ("Scheduler", "Worker"))
    assert scheduler["ports"] == [{"name": "mxjob-port", "containerPort": 9000}]
    assert specs["Scheduler"]["restartPolicy"] == "Never"
    assert worker == {
        "name": "mxnet",
        "image": "mx:1",
        "command": ["sh", "-c", "python train.py"],
        "env": [{"name": "EPOCHS", "value": "3"}],
        "resources": {"limits": {"cpu": 1}},
    }
    assert made.notes == (
        "spec[0]: the container main is called mxnet now, as the kind asks",
        "left out, because the operator sets them: DMLC_ROLE",
        "left out of spec[2]: colour",
    )


@pytest.mark.parametrize("name", ["replicaSpecs", "tfReplicaSpecs"])
def test_a_list_below_a_field_is_read_too(name: str) -> None:
    spec = {
        name: [{"tfReplicaType": "PS", "container": {"image": "tf"}}, {"worker": {"image": "tf"}}],
        "tfImage": "x",
    }
    made = convert({"kind": "TfJob", "metadata": {"name": "a"}, "spec": spec})
    TFJobSpec.parse(made.resource["spec"])
    assert list(made.resource["spec"]["tfReplicaSpecs"]) == ["PS", "Worker"]
    assert made.notes == ("left out of spec: tfImage",)


def test_a_job_of_v1_is_left_as_it_is() -> None:
    job = convert(yaml.safe_load(LIST)).resource
    assert convert(job).resource is job


def test_a_job_of_a_version_before_v1_is_brought_up() -> None:
    specs = {"Worker": {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "x"}]}}}}
    spec = {"cleanPodPolicy": "All", "backoffLimit": 2, "tfReplicaSpecs": specs}
    made = convert(
        {"apiVersion": "kubeflow.org/v1beta1", "kind": "TFJob", "metadata": {"name": "a"}, "spec": spec}
    )
    assert (made.resource["apiVersion"], made.resource["metadata"]) == ("kubeflow.org/v1", {"name": "a"})
    assert made.resource["spec"] == {
        "runPolicy": {"cleanPodPolicy": "All", "backoffLimit": 2},
        "tfReplicaSpecs": specs,
    }
    TFJobSpec.parse(made.resource["spec"])
    assert made.notes == (
        "apiVersion is kubeflow.org/v1, and was kubeflow.org/v1beta1",
        "moved to spec.runPolicy: cleanPodPolicy, backoffLimit",
    )


def _job(*entries: Any, **fields: Any) -> Any:
    return {"kind": "mxjob", "metadata": {"name": "a"}, "spec": list(entries), **fields}


WRONG = [
    ("nothing", None, "no `kind`"),
    ("another kind", {"kind": "Pod"}, "there are PyTorchJob, TFJob"),
    ("no list", _job(spec={"a": 1}), "spec: has to be a list of replicas"),
    ("no name", _job({"type": "worker", "image": "x"}, metadata={}), "metadata.name"),
    ("no type", _job({"image": "x"}), r"spec\[0\]: nothing is not a replica type"),
    (
        "a type that is none",
        _job({"type": "boss", "image": "x"}),
        "boss is not a replica type of MXJob; there are Scheduler",
    ),
    (
        "a type twice",
        _job(*[{"type": "worker", "image": "x"}] * 2),
        r"spec\[1\]: the replica type Worker is there twice",
    ),
    ("no image", _job({"type": "worker"}), "no container with an image"),
    ("no number", _job({"type": "worker", "image": "x", "replicas": "two"}), "'two' is not a number"),
    (
        "a policy that is none",
        _job({"type": "worker", "image": "x", "restartPolicy": "Never!"}),
        "restartPolicy",
    ),
    ("a text", _job("worker"), "has to be an object"),
]


@pytest.mark.parametrize(
    ("document", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
def test_what_is_not_understood_is_named(document: Any, message: str) -> None:
    with pytest.raises(BadJob, match=message):
        convert(document)
