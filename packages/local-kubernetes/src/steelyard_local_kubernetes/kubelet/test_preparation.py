"""Tests of what a Pod waits for before its containers are made."""

import subprocess
import sys
from pathlib import Path

import pytest

from steelyard_common.types import Json
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PERSISTENT_VOLUME_CLAIMS
from steelyard_local_kubernetes.kubelet.env import VolumeMissing
from steelyard_local_kubernetes.kubelet.preparation import ensure_bound, write_profile


def pod_with(claim: str) -> Json:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {"volumes": [volume]}}


@pytest.mark.parametrize("name", ["data/sub", "data/status", "a/..", "..", "UPPER", "a\x00b"])
async def test_a_pod_waits_for_a_claim_that_no_claim_can_be(name: str) -> None:
    """The API takes any name; as a path it would lead into another claim."""
    cluster = MemoryCluster()
    claim = {"metadata": {"name": "data", "namespace": "default"}, "status": {"phase": "Bound"}}
    await cluster.create(PERSISTENT_VOLUME_CLAIMS, claim)
    with pytest.raises(VolumeMissing, match="is not found: no claim can have this name"):
        await ensure_bound(cluster, pod_with(name))


async def test_a_claim_without_an_object_is_a_folder_too() -> None:
    await ensure_bound(MemoryCluster(), pod_with("data"))


FULL = """
import resource, sys
from pathlib import Path
from steelyard_local_kubernetes.kubelet.preparation import write_profile

folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    write_profile(folder / "home", "/bin", folder / "0.profile")
except OSError:
    sys.exit(7)
"""


def test_a_profile_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    home, scratch = tmp_path / "home", tmp_path / "0.profile"
    home.mkdir()
    assert subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], check=False).returncode == 7
    assert not (home / ".profile").exists()
    write_profile(home, "/bin", scratch)
    assert (home / ".profile").read_text() == "export PATH=/bin\n"
    assert [*tmp_path.iterdir()] == [home]


@pytest.mark.parametrize("made", ["a file", "a link to nothing"])
def test_a_profile_of_the_user_stays(tmp_path: Path, made: str) -> None:
    profile = tmp_path / ".profile"
    profile.write_text("mine") if made == "a file" else profile.symlink_to("nothing")
    write_profile(tmp_path, "/bin", tmp_path / "0.profile")
    assert profile.is_symlink() or profile.read_text() == "mine"
