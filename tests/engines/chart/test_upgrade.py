"""The release upgraded, uninstalled and installed again. It is the last of the suite: rights are looked at before."""

import os

import pytest

from tests.engines.chart.conftest import client_of, token
from tests.engines.chart.helm import CHART, RELEASE, Cluster
from tests.engines.chart.suite import KUBECONFIG

pytestmark = [
    pytest.mark.skipif(KUBECONFIG not in os.environ, reason="needs a cluster: the suite starts one"),
    pytest.mark.timeout(1200),
]


def test_an_upgrade_keeps_the_secrets_and_an_uninstall_the_data(cluster: Cluster) -> None:
    secret = token(cluster)
    cluster.helm("upgrade", RELEASE, CHART, "--wait", "--timeout", "10m", "--set", "pods.labels.team=red")
    assert token(cluster) == secret
    [pod] = cluster.get("pods", "-l", "steelyard/part=platform,team=red")["items"]
    assert pod["status"]["phase"] == "Running"
    with client_of(cluster) as client:
        before = {entity.id for entity in client.audits.query()}
    cluster.helm("uninstall", RELEASE, "--wait", "--timeout", "5m")
    assert not cluster.get("deployments")["items"]
    assert cluster.get("pvc", "steelyard-data")
    cluster.helm("install", RELEASE, CHART, "--wait", "--timeout", "10m")
    assert token(cluster) == secret
    with client_of(cluster) as client:
        assert {entity.id for entity in client.audits.query()} == before
