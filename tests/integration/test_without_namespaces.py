"""A machine whose users may make no namespaces, such as a container with default rights: `up` says what that takes
away, and the rest works.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from steelyard_kube.resource import CONFIG_MAPS, JOBS
from steelyard_local_kubernetes.kubelet.testing import missing_right
from tests.integration.conftest import Machine, is_true, processes_of
from tests.integration.manifests import make_job

pytestmark = pytest.mark.e2e

NONE_ALLOWED = (
    "echo 0 > /proc/sys/user/max_user_namespaces || exit 99; "
    'exec setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all "$@"'
)
"""Run a command in a user namespace in which no further one may be made, and without the rights to other ones."""
NOTES = (
    "without mount namespaces (root or user namespaces) programs that are not Steelyard's own cannot resolve the names "
    "of Services",
    "without process namespaces (root or user namespaces, and a /proc of one's own) Pods have the machine's process "
    "numbers",
)
CONFIG = {"metadata": {"name": "words", "namespace": "default"}, "data": {"word": "read"}}


@pytest.fixture
def prefix() -> list[str]:
    """Words before a command that may make no namespaces."""
    if missing_right("mounts"):
        return []
    return ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", NONE_ALLOWED, "sh"]


@pytest.fixture
def said(machine: Machine, prefix: list[str]) -> Iterator[str]:
    """Text that `up` prints; it is up until the test ends."""
    command = [
        *prefix,
        sys.executable,
        "-m",
        "steelyard.cli.main",
        "up",
        "--state-dir",
        str(machine.state.path),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [""]
        while "process numbers" not in lines[-1] and (line := process.stdout.readline()):
            lines.append(line.strip())
        yield " ".join(lines)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 0
    assert processes_of(machine.state.path) == []


async def test_up_says_what_it_lacks_and_pods_see_their_volumes(machine: Machine, said: str) -> None:
    assert [note for note in NOTES if note not in said] == [], said
    await machine.create(CONFIG_MAPS, CONFIG)
    job = make_job("reads", "grep -x read /words/word")
    spec = job["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "words", "configMap": {"name": "words"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "words", "mountPath": "/words"}]
    await machine.create(JOBS, job)
    await machine.until(JOBS, "reads", is_true("Complete"))
