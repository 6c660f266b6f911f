"""The chart on a real node: images are made, the platform is installed by helm, and plays its story.

`python -m tests.engines.chart.suite [OPTION OF PYTEST ...]` runs it alone. With KUBECONFIG_CHART the cluster of that
kubeconfig is used, which has the images.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from steelyard_common.types import Json
from tests.engines.build import Missing, helm
from tests.engines.node.cluster import node_cluster, prepare
from tests.engines.node.configs import Addition
from tests.engines.services.suite import find_programs
from tests.source import ROOT

HERE = Path(__file__).parent
KUBECONFIG = "KUBECONFIG_CHART"
FILES = ("templates", "jobs", "bounds", "without_helm", "installation", "rights", "examples", "upgrade")
"""Files of the tests in their order: the audit log is read before an uninstall takes rights from Pods that run."""
IMAGES = ("operator", "platform", "steps", "runner-sklearn", "all")
CLAIMED: Json = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "steelyard-data"},
    "spec": {
        "capacity": {"storage": "20Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/var/lib/steelyard-data", "type": "DirectoryOrCreate"},
        "persistentVolumeReclaimPolicy": "Retain",
    },
}
"""Volume for the claim: this node has no storage class."""

AUDIT_LOG = "audit.log"
"""File of the cluster's folder with a line for each request of an account of the release."""
AUDIT: Json = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts:steelyard"]}, {"level": "None"}],
}


def make_images(folder: Path) -> list[Path]:
    """Make the images that the chart names into a folder; return their archives. Raises Missing."""
    command = [sys.executable, "-m", "deploy.images", "--output", str(folder), *IMAGES]
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: ended with {done.returncode}")
    return [folder / f"{name}.tar" for name in IMAGES]


def run_shapes() -> int:
    """Run the tests of the shapes on servers; pytest's exit status. Raises Missing as `run`, and without an engine."""
    find_programs()
    return run(["-s", str(HERE / "test_shapes.py")])


def run(options: Sequence[str] = ()) -> int:
    """Run the tests; pytest's exit status. Raises Missing where there is no root, no Go, or no package."""
    if given := os.environ.get(KUBECONFIG):
        return _pytest(Path(given), options)
    prepare()
    helm()
    with tempfile.TemporaryDirectory(prefix="steelyard-chart-") as folder:
        began = time.monotonic()
        archives = make_images(Path(folder))
        print(f"images: made in {time.monotonic() - began:.0f} s", flush=True)
        addition = Addition(
            images=tuple(map(str, archives)),
            objects=(CLAIMED,),
            files={"audit.json": AUDIT},
            flags={
                "apiserver": (
                    "--audit-policy-file={folder}/audit.json",
                    f"--audit-log-path={{folder}}/{AUDIT_LOG}",
                )
            },
        )
        with node_cluster(addition) as kubeconfig:
            print(f"node: ready after {time.monotonic() - began:.0f} s", flush=True)
            # A folder of root's that everybody may write to, as provisioners of local volumes make them.
            data = kubeconfig.parent / "var-lib" / "steelyard-data"
            data.mkdir()
            data.chmod(0o777)
            return _pytest(kubeconfig, options)


def _pytest(kubeconfig: Path, options: Sequence[str]) -> int:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--durations=8",
        *(options or [str(HERE / f"test_{name}.py") for name in FILES]),
    ]
    environment = os.environ | {KUBECONFIG: str(kubeconfig)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except Missing as missing:
        sys.exit(f"{missing}: the chart's suite cannot run")
