"""The platform that the chart installs on a real node, in its shape standalone: its story, and its Pods killed."""

import json
import os
from typing import Any

import pytest

from tests.engines.chart.conftest import client_of, state_of, token
from tests.engines.chart.helm import RELEASE, Cluster, ProgramFailed
from tests.engines.chart.suite import KUBECONFIG

pytestmark = [
    pytest.mark.skipif(KUBECONFIG not in os.environ, reason="needs a cluster: the suite starts one"),
    pytest.mark.timeout(1200),
]


def test_the_story_is_told_in_containers(cluster: Cluster) -> None:
    try:
        said = cluster.helm("test", RELEASE, "--logs", "--timeout", "10m", seconds=700)
    except ProgramFailed as error:
        raise AssertionError(f"{error}\n{state_of(cluster)}") from None
    assert "Two models evaluated, reported on and audited" in said
    with client_of(cluster) as client:
        assert [audit.status for audit in client.audits.query()] == ["Complete", "Complete"]


def test_logs_of_a_workflow_are_read_from_outside(cluster: Cluster) -> None:
    with client_of(cluster) as client:
        evaluation, *_ = client.evaluations.query()
        assert client.evaluations.logs(evaluation.id).logs


def test_namespaces_of_accounts_keep_to_the_restricted_standard(cluster: Cluster) -> None:
    label = "app.kubernetes.io/managed-by=steelyard-orchestrator"
    namespaces = cluster.get("namespaces", "-l", label)["items"]
    assert namespaces
    for namespace in namespaces:
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
        policies = cluster.get("networkpolicies", "-n", namespace["metadata"]["name"])["items"]
        assert {"steelyard-default", "steelyard-egress", "steelyard-runners"} == {
            policy["metadata"]["name"] for policy in policies
        }


def test_no_pod_holds_a_token_that_it_does_not_need(cluster: Cluster) -> None:
    with_token: set[str] = set()
    for pod in cluster.get("pods", "-A", "-l", "app.kubernetes.io/part-of=steelyard")["items"]:
        sources: list[Any] = [
            volume.get("projected", {}).get("sources", []) for volume in pod["spec"]["volumes"]
        ]
        if "serviceAccountToken" in json.dumps(sources):
            with_token.add(pod["metadata"]["labels"]["steelyard/part"])
    assert with_token == {"operator", "platform"}


def test_a_platform_that_is_killed_goes_on_with_what_it_had(cluster: Cluster) -> None:
    with client_of(cluster) as client:
        before = {entity.id for entity in client.evaluations.query()}
    secret = token(cluster)
    cluster.kubectl("delete", "pod", "-l", "steelyard/part=platform", "--grace-period=0", "--force")
    cluster.kubectl("rollout", "status", "deployment/steelyard-platform", "--timeout=300s")
    assert token(cluster) == secret
    with client_of(cluster) as client:
        assert {entity.id for entity in client.evaluations.query()} == before
