"""The cluster of the suite with the release installed, as the chart's page says."""

import base64
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.client import Client
from tests.engines.build import binaries
from tests.engines.chart.helm import CHART, NAMESPACE, RELEASE, Cluster, ProgramFailed
from tests.engines.chart.suite import KUBECONFIG

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """A cluster with the release installed, as its page says."""
    cluster = Cluster(Path(os.environ[KUBECONFIG]))
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("label", "namespace", NAMESPACE, RESTRICTED)
    began = time.monotonic()
    try:
        cluster.helm("install", RELEASE, CHART, "--wait", "--timeout", "10m")
    except ProgramFailed as error:
        raise AssertionError(f"{error}\n{state_of(cluster)}") from None
    print(f"installed and ready after {time.monotonic() - began:.0f} s")
    return cluster


def state_of(cluster: Cluster) -> str:
    """Return what a reader of a failed test wants to see."""
    lines = [
        cluster.kubectl("get", "pods,jobs,pvc", "-A", "-o", "wide"),
        cluster.kubectl("get", "events", "-A"),
    ]
    for pod in cluster.get("pods")["items"]:
        name = pod["metadata"]["name"]
        log = subprocess.run(
            [
                binaries() / "kubectl",
                "--kubeconfig",
                cluster.kubeconfig,
                "-n",
                NAMESPACE,
                "logs",
                name,
                "--tail=40",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        lines += [f"---- {name}", log.stdout, log.stderr]
    return "\n".join(lines)


def token(cluster: Cluster) -> str:
    secret = cluster.get("secret", "steelyard-administrator")
    return base64.b64decode(secret["data"]["token"]).decode()


@contextmanager
def client_of(cluster: Cluster) -> Iterator[Client]:
    """Yield a client that reaches the API as the notes of the installation say: by a forwarded port."""
    command = [str(binaries() / "kubectl"), "--kubeconfig", str(cluster.kubeconfig), "-n", NAMESPACE]
    process = subprocess.Popen(
        [*command, "port-forward", "service/steelyard-api", ":http"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert port
        with Client(endpoint=f"http://127.0.0.1:{port[1]}/v0", token=token(cluster)) as client:
            yield client
    finally:
        process.terminate()
        process.communicate()
