"""An object that ends two processes in a row is set aside, no other. Real processes are killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from steelyard_common.types import Json
from steelyard_kube.resource import JOBS, PODS
from steelyard_local_kubernetes.at_work import RELEASE, SLOTS, AtWork, SetAside, set_aside_in

DIE = """
import asyncio, os, signal, sys, threading
from pathlib import Path
from steelyard_kube.resource import PODS
from steelyard_local_kubernetes.at_work import AtWork, SetAside
from steelyard_local_kubernetes.test_at_work import make

at_work, asynchronous = AtWork(Path(sys.argv[1])), sys.argv[2] == "task"
with at_work.on(PODS, make("done")):
    pass
beside = [make(name) for name in sys.argv[4:]]

def die(): os.kill(os.getpid(), signal.SIGKILL)

def others(rest):
    if not rest:
        return die_at(make(sys.argv[3]))
    with at_work.on(PODS, rest[0]):
        others(rest[1:])

def die_at(pod):
    if not asynchronous:
        with at_work.on(PODS, pod):
            die()
    async def work():
        async with at_work.around(PODS, pod):
            await asyncio.sleep(0)
            die()
    asyncio.run(work())

try:
    others(beside)
except SetAside as problem:
    sys.exit(str(problem))
"""


def make(name: str, release: str = "") -> Json:
    annotations = {RELEASE: release} if release else {}
    metadata = {"name": name, "namespace": "default", "uid": f"uid of {name}", "annotations": annotations}
    return {"metadata": metadata}


def run_once(path: Path, name: str, *beside: str, way: str = "thread") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", DIE, str(path), way, name, *beside]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("way", ["thread", "task"])
def test_an_object_that_ends_two_processes_is_set_aside(tmp_path: Path, way: str) -> None:
    path = tmp_path / "at-work"
    assert run_once(path, "killer", way=way).returncode == -9
    assert set_aside_in(path) == []
    assert run_once(path, "killer", way=way).returncode == -9
    third = run_once(path, "killer", way=way)
    assert third.returncode == 1
    assert "Pod default/killer is set aside: the Kubernetes process died 2 times" in third.stderr
    assert 'kubectl -n default annotate --overwrite pod killer steelyard.io/release="$(date)"' in third.stderr
    assert [mark.name for mark in set_aside_in(path)] == ["killer"]
    # It stays set aside, its users can release it, and a new object of the name is another.
    at_work = AtWork(path)
    with pytest.raises(SetAside), at_work.on(PODS, make("killer")):
        pass
    with at_work.on(PODS, make("killer", "again")), at_work.on(JOBS, make("killer")):
        pass
    with at_work.on(PODS, {"metadata": {**make("killer")["metadata"], "uid": "another"}}):
        pass
    at_work.release(*at_work.set_aside)
    assert set_aside_in(path) == []


def test_two_deaths_that_are_not_in_a_row_accuse_nobody(tmp_path: Path) -> None:
    path = tmp_path / "at-work"
    run_once(path, "first")
    run_once(path, "other")
    run_once(path, "first")
    AtWork(path)
    assert set_aside_in(path) == []
    run_once(path, "first")
    assert set_aside_in(path) == []


def test_who_works_beside_it_is_acquitted_once_it_has_ended(tmp_path: Path) -> None:
    """Two suspects are never at work together, so the second death leaves one of them."""
    path = tmp_path / "at-work"
    run_once(path, "killer", "beside")
    at_work = AtWork(path)
    with at_work.on(PODS, make("beside")):
        pass
    assert run_once(path, "killer").returncode == -9
    AtWork(path)
    assert [mark.name for mark in set_aside_in(path)] == []  # an orderly end lay between
    run_once(path, "killer", "beside")
    run_once(path, "killer")
    assert run_once(path, "killer").returncode == 1
    assert [mark.name for mark in set_aside_in(path)] == ["killer"]


def test_damaged_marks_are_none(tmp_path: Path) -> None:
    path = tmp_path / "at-work"
    for content in (b"x" * 70_000, b"\xff" * 100, b"", b'{"suspects": 1, "set_aside": [{}]}'):
        path.write_bytes(content)
        path.with_suffix(".json").write_bytes(content)
        at_work = AtWork(path)
        assert at_work.set_aside == set()
        names = [f"pod-{number}" for number in range(SLOTS + 3)]
        _nested(at_work, names)


def test_marks_that_cannot_be_written_keep_nothing_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "at-work"
    path.mkdir()
    with AtWork(path).on(PODS, make("pod")):
        pass


def _nested(at_work: AtWork, names: list[str]) -> None:
    if names:
        with at_work.on(PODS, make(names[0])):
            _nested(at_work, names[1:])
