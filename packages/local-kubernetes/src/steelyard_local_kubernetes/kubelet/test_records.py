"""Tests of damaged records of a Pod: nothing in them is believed, and nothing starts again because of them."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from steelyard_local_kubernetes.kubelet import shim
from steelyard_local_kubernetes.kubelet.records import DAMAGED, LOST, Failure, PodFolder, Sandbox

STARTED = {
    "pid": 1,
    "shim": 1,
    "shimStart": 1,
    "boot": "another",
    "startedAt": "2026-01-31T12:00:00.000000001Z",
}
EXITED = {
    "startedAt": "2026-01-31T12:00:00Z", "finishedAt": "2026-01-31T12:00:01Z", "exitCode": 0, "signal": 0,
    "reason": "", "message": "done",
}  # fmt: skip
DAMAGES = (b"", b'{"pid": 1', b"\xff\xfe", b"[]", b"{}", b'{"name": "of another file"}')


@pytest.fixture
def folder(tmp_path: Path) -> PodFolder:
    made = PodFolder(tmp_path / "0123")
    made.write_sandbox(Sandbox("default", "demo", "0123", "127.16.0.2", "2026-01-31T12:00:00Z"))
    base = made.base("main", 0)
    base.parent.mkdir()
    for suffix, content in ((".json", {"argv": ["true"]}), (".started", STARTED), (".exited", EXITED)):
        shim.write_whole(str(base.with_suffix(suffix)), content)
    return made


def test_whole_records_are_believed(folder: PodFolder) -> None:
    run = folder.run("main")
    assert run
    assert (run.state, run.reason, run.message) == ("exited", "Completed", "done")


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", [".started", ".exited"])
def test_a_run_whose_record_is_damaged_has_ended_in_an_unknown_way(
    folder: PodFolder, suffix: str, damage: bytes
) -> None:
    base = folder.base("main", 0)
    base.with_suffix(suffix).write_bytes(damage)
    if suffix == ".started":
        base.with_suffix(".exited").unlink()
    run = folder.run("main")
    assert run
    assert (run.state, run.reason, run.exit_code) == ("exited", LOST, 137)


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_records_of_a_pod_stop_no_kubelet(folder: PodFolder, damage: bytes) -> None:
    (folder.path / "pod.json").write_bytes(damage)
    assert folder.sandbox() is None
    failure = Failure("Evicted", "too much memory")
    folder.fail(failure)
    assert folder.failure() == failure
    (folder.path / "failed.json").write_bytes(damage)
    assert folder.failure() == DAMAGED
    assert json.loads(json.dumps(asdict(DAMAGED)))["disruption"]


def test_a_last_word_that_is_damaged_is_left_out(folder: PodFolder) -> None:
    base = folder.base("main", 0)
    for suffix in (".json", ".reason"):
        base.with_suffix(suffix).write_bytes(b"{")
    run = folder.run("main")
    assert run
    assert run.succeeded
