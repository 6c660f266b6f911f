"""Manifests from what a person asks for, and refusals with a helpful message."""

from typing import Any

import pytest

from steelyard.clusters.names import MAX_NUMBER, MAX_REPLICAS
from steelyard.clusters.training.doubles import make_request
from steelyard.clusters.training.errors import BadJob
from steelyard.clusters.training.frameworks import find_imported, from_resource
from steelyard.clusters.training.manifest import Program, fresh_name, manifest
from steelyard_schema.training import common


@pytest.mark.parametrize(
    ("framework", "workers", "given", "counts"),
    [
        ("pytorch", 4, {}, {"Worker": 4}),
        ("xgboost", 4, {}, {"Master": 1, "Worker": 3}),
        ("xgboost", 1, {}, {"Master": 1}),
        ("xgboost", 0, {"Worker": 2}, {"Worker": 2}),
        ("mxnet", 2, {}, {"Scheduler": 1, "Server": 1, "Worker": 2}),
        ("mxnet", 2, {"server": 3}, {"Scheduler": 1, "Server": 3, "Worker": 2}),
        ("tensorflow", 2, {"ps": 1, "CHIEF": 1}, {"Chief": 1, "PS": 1, "Worker": 2}),
    ],
)
def test_workers_become_replica_types(
    framework: str, workers: int, given: dict[str, int], counts: dict[str, int]
) -> None:
    assert make_request(framework=framework, workers=workers, replicas=given).counts == counts


def test_a_manifest_has_what_was_asked_for() -> None:
    program = Program("image", ("python", "a.py"), "/work", {"A": "1"}, {"cpu": "2"})
    made = manifest(
        make_request(
            program=program,
            workers=2,
            backoff_limit=3,
            deadline=60,
            restart_scope="Pod",
            code={"name": "digits-code"},
        )
    )
    assert (made["apiVersion"], made["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    assert made["metadata"]["annotations"] == {"steelyard/restart-scope": "Pod"}
    assert made["spec"]["runPolicy"] == {
        "cleanPodPolicy": "Running",
        "backoffLimit": 3,
        "activeDeadlineSeconds": 60,
    }
    worker = made["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (2, "ExitCode")
    (container,) = worker["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "A", "value": "1"}]
    assert container["resources"]["limits"] == {"cpu": "2"}
    assert container["volumeMounts"][0]["mountPath"] == "/steelyard/code"
    assert worker["template"]["spec"]["shareProcessNamespace"], "Python as process 1 would not hear SIGTERM"


def test_a_chief_ends_a_tensorflow_job_by_its_own_rule() -> None:
    assert manifest(make_request(framework="tensorflow"))["spec"]["successPolicy"] == "AllWorkers"
    assert "successPolicy" not in manifest(make_request(framework="tensorflow", replicas={"PS": 1}))["spec"]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"name": "0-test"}, "--name 0-test: should be lower-case"),
        ({"name": "a" * 63}, "63 are possible, so choose a name of at most 54"),
        ({"restart": "Sometimes"}, "--restart Sometimes: should be ExitCode, OnFailure, Never, Always"),
        (
            {"replicas": {"PS": 1}},
            "--replicas PS=1: pytorch has no such replica type; there are Master, Worker",
        ),
        ({"workers": 0}, "no replica at all"),
        ({"workers": 0, "framework": "xgboost"}, "no replica at all"),
        ({"workers": -1}, "--workers -1: should be from 0 to 10000"),
        ({"workers": 10_001}, "--workers 10001: should be from 0 to 10000"),
        ({"replicas": {"master": 2**31}}, "--replicas master=2147483648: should be from 0 to 10000"),
        ({"backoff_limit": 2**31}, "--backoff-limit 2147483648: should be from 0 to 2147483647"),
        ({"backoff_limit": -1}, "--backoff-limit -1: should be"),
        ({"deadline": 2**63}, "--deadline 9223372036854775808: should be"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadJob, match=fault):
        manifest(make_request(**given))


def test_a_framework_of_a_resource_makes_dl_jobs() -> None:
    resource = {
        "metadata": {"name": "dask"},
        "spec": {
            "container": "main",
            "roles": [{"name": "scheduler", "minimum": 1, "maximum": 1}, {"name": "worker", "minimum": 1}],
        },
    }
    framework = from_resource(resource)
    assert framework.replicas(3, {}) == {"scheduler": 1, "worker": 3}
    assert (framework.resource.kind, framework.spec) == ("DLJob", {"framework": "dask"})


def test_a_role_that_a_job_need_not_have_is_not_started() -> None:
    roles = [
        {"name": "lead", "minimum": 2, "default": 3},
        {"name": "evaluator", "minimum": 0, "default": 1},  # the API fills in what is not said
        {"name": "worker"},
    ]
    framework = from_resource({"metadata": {"name": "own"}, "spec": {"roles": roles}})
    assert framework.replicas(1, {}) == {"lead": 3, "worker": 1}
    assert framework.replicas(1, {"evaluator": 1}) == {"lead": 3, "evaluator": 1, "worker": 1}


def test_bounds_are_those_of_the_definitions() -> None:
    assert (MAX_REPLICAS, MAX_NUMBER) == (common.MAX_REPLICAS, common.INT32)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch.nn as nn", "pytorch"),
        ("def f():\n  from tensorflow import keras", "tensorflow"),
        ("import lightning", "pytorch"),
        ("import jax, xgboost", ""),
        ("import numpy", ""),
        ("from .torch import x", ""),
        ("def broken(", ""),
    ],
)
def test_the_framework_is_what_the_program_imports(source: str, name: str) -> None:
    framework = find_imported(source)
    assert (framework.name if framework else "") == name


def test_a_fresh_name_comes_from_the_program_s() -> None:
    assert fresh_name("Train_Digits").startswith("train-digits-")
    assert fresh_name("2024 run").startswith("train-2024-run-")
    assert fresh_name("___").startswith("train-")
    assert fresh_name("a") != fresh_name("a")
