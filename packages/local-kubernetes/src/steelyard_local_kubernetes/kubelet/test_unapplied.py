"""Fields of a Pod that have no effect on one machine: the kubelet names them."""

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.kubelet.testing import make_container, make_pod
from steelyard_local_kubernetes.kubelet.unapplied import list_unapplied


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, []),
        ({"dnsPolicy": "ClusterFirst", "securityContext": {"runAsUser": 7, "runAsNonRoot": True}}, []),
        (
            {"runtimeClassName": "x", "dnsPolicy": "None", "dnsConfig": {"searches": ["a"]}},
            ["spec.runtimeClassName", "spec.dnsConfig", "spec.dnsPolicy"],
        ),
        (
            {"securityContext": {"runAsUser": 8, "fsGroup": 9}},
            ["spec.securityContext.fsGroup", "spec.securityContext.runAsUser"],
        ),
    ],
    ids=["nothing", "what is so anyway", "names and runtime", "another user"],
)
def test_fields_of_a_pod(spec: Json, fields: list[str]) -> None:
    assert list_unapplied(make_pod(**spec), user=7, group=7) == fields


def test_fields_of_a_container_and_a_root_user_against_run_as_non_root() -> None:
    context = {"readOnlyRootFilesystem": True, "privileged": False, "runAsNonRoot": True, "runAsGroup": 0}
    pod = make_pod(make_container(securityContext=context))
    path = "containers[main].securityContext"
    assert list_unapplied(pod, user=0, group=0) == [
        f"{path}.readOnlyRootFilesystem",
        f"{path}.runAsNonRoot",
    ]
