"""Manifests of pages beside the installed platform: `examples/digits` by the commands of the chart's page, and the Pod
of docs/secrets.md.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from steelyard.accounts.secrets import make_keys
from steelyard.local.machine import lasting_port
from tests.engines.build import binaries
from tests.engines.chart.conftest import state_of
from tests.engines.chart.helm import CHART, Cluster
from tests.engines.chart.suite import KUBECONFIG
from tests.source import ROOT
from tests.test_secrets_page import pod_of_page

pytestmark = [
    pytest.mark.skipif(KUBECONFIG not in os.environ, reason="needs a cluster: the suite starts one"),
    pytest.mark.timeout(1500),
]
NAMESPACE = "digits"
STATUS = {"model": "Ready", "evaluation": "Complete", "report": "Complete", "audit": "Complete"}


def commands_of_page(port: int) -> str:
    """Return the commands of the page's section as one script, which forwards `port` in place of the page's own."""
    section = (
        (CHART / "README.md").read_text().partition("\n## Workflows by kubectl\n")[2].partition("\n## ")[0]
    )
    blocks = re.findall(r"^```bash\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    text = "".join(blocks).replace("storage 9000 &", f"storage {port}:9000 &")
    text = text.replace("http://127.0.0.1:9000", f"http://127.0.0.1:{port}")
    return f"set -eo pipefail\ntrap 'kill $(jobs -p)' EXIT\n{text}"


def test_the_example_ends_complete(cluster: Cluster) -> None:
    environment = os.environ | {
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": f"{binaries()}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", commands_of_page(lasting_port())],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    for kind, status in STATUS.items():
        [resource] = cluster.get(kind, "-n", NAMESPACE)["items"]
        assert resource.get("status", {}).get("status") == status, (
            f"{done.stdout}{done.stderr}\n{state_of(cluster)}"
        )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pod_of_the_page_on_secrets_reads_its_keys(cluster: Cluster, tmp_path: Path) -> None:
    make_keys(tmp_path / "secret-keys")
    cluster.kubectl(
        "create", "secret", "generic", "steelyard-secret-keys", f"--from-file={tmp_path}/secret-keys"
    )
    spec = pod_of_page()
    platform = cluster.get("deployment", "steelyard-platform")["spec"]["template"]["spec"]
    spec["containers"][0]["image"] = platform["containers"][0]["image"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "check"}, "spec": spec}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    cluster.kubectl("wait", "pod", "check", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
    assert "1 key, there are no secrets yet" in cluster.kubectl("logs", "check")
