"""`kubectl apply -f examples/digits` where the storage needs credentials, as on a cluster: the operator's setting names
the Secret that opens it, and the manifests name none.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steelyard.local.detached import UpOptions
from steelyard.local.machine import lasting_port
from steelyard.local.supervisor import start_detached
from steelyard.services.storage_server.simulation.client import ACCESS, SECRET
from tests.integration.conftest import machine_at
from tests.integration.test_storage_server import SETTINGS, environment
from tests.source import ROOT

EXAMPLE = ROOT / "examples" / "digits"
NAMESPACE = "digits"


@pytest.mark.e2e
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not shutil.which("kubectl"), reason="there is no kubectl on this machine")
def test_the_example_completes_with_the_secret_of_its_namespace(tmp_path: Path) -> None:
    port, settings = lasting_port(), tmp_path / "steelyard.toml"
    settings.write_text(
        SETTINGS.format(root=tmp_path / "storage", port=port, access=ACCESS, secret=SECRET)
        + '\n[operator]\nstorage = "s3://steelyard"\nstorage_secret = "steelyard-storage"\n'
    )
    with machine_at(tmp_path / "state") as machine:
        start_detached(machine.state.path, UpOptions(settings=settings))

        def kubectl(*arguments: str) -> str:
            command = ["kubectl", "--kubeconfig", str(machine.state.kubeconfig), "-n", NAMESPACE, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=700, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        kubectl("create", "namespace", NAMESPACE)
        kubectl("apply", "-f", str(EXAMPLE))
        while "steelyard-storage" not in kubectl("get", "pods", "-o", "yaml"):
            time.sleep(0.2)
        # Pods wait for the Secret, and the steps for what the example uploads.
        literals = (f"--from-literal={name}={value}" for name, value in environment(port).items())
        kubectl("create", "secret", "generic", "steelyard-storage", *literals)
        uploading = os.environ | environment(port) | {"STEELYARD_STORAGE": "s3://steelyard"}
        subprocess.run([sys.executable, EXAMPLE / "prepare.py"], env=uploading, check=True)
        for kind in ("model", "evaluation", "report", "audit"):
            kubectl("wait", kind, "--all", "--for=condition=Finished", "--timeout=600s")
            [resource] = json.loads(kubectl("get", kind, "-o", "json"))["items"]
            assert resource["status"]["status"] in ("Ready", "Complete"), resource["status"]
            assert "secret" not in resource["spec"]["storage"]
    assert (tmp_path / "storage" / "audits").is_dir()
