"""The fork server: shims of its making are as good as any, and nothing depends on its life."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard_common import processes
from steelyard_local_kubernetes.kubelet.shim_processes import ForkServer, ShimProcess
from tests.kubelet.test_adoption import ROOT, make_intent


@pytest.fixture
def shims() -> Iterator[ForkServer]:
    server = ForkServer(sys.executable)
    server.begin()
    yield server
    server.close()


async def ended(child: ShimProcess) -> None:
    async with asyncio.timeout(60):
        while not child.ended:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_forked_shim_runs_its_container_and_shows_whose_it_is(
    shims: ForkServer, tmp_path: Path
) -> None:
    was_ended = asyncio.Event()
    intent = make_intent(
        tmp_path / "pod/main", "echo out; echo err >&2; while ! test -e end; do sleep 0.01; done; exit 3"
    )
    child = shims.start(intent, was_ended.set)
    await asyncio.wait_for(was_ended.wait(), 60)
    assert intent.with_suffix(".started").exists()
    assert processes.with_argument(f"{tmp_path}/") == {child.pid}
    assert os.getsid(child.pid) == child.pid
    (intent.parent / "end").touch()
    await ended(child)
    assert '"exitCode": 3' in intent.with_suffix(".exited").read_text()
    assert sorted(line.split()[-1] for line in intent.with_suffix(".log").read_text().splitlines()) == [
        "err",
        "out",
    ]


async def test_shims_outlive_the_server_and_are_started_without_it(shims: ForkServer, tmp_path: Path) -> None:
    first = make_intent(tmp_path / "pod/first", "while ! test -e end; do sleep 0.01; done")
    second = make_intent(tmp_path / "pod/second", "true")
    one = shims.start(first, lambda: None)
    os.kill(shims._pid, signal.SIGKILL)
    two = shims.start(second, lambda: None)
    await ended(two)
    assert '"exitCode": 0' in second.with_suffix(".exited").read_text()
    assert not one.ended
    (first.parent / "end").touch()
    await ended(one)
    third = shims.start(make_intent(tmp_path / "pod/third", "true"), lambda: None)
    await ended(third)
    assert third.exit_code is None  # a new server's


async def test_shims_are_started_from_several_threads(shims: ForkServer, tmp_path: Path) -> None:
    intents = [make_intent(tmp_path / f"pod/{number}", f"exit {number}") for number in range(8)]
    children = await asyncio.gather(*(asyncio.to_thread(shims.launch, intent) for intent in intents))
    for started in children:
        await ended(started.watch(lambda: None))
    codes = [json.loads(intent.with_suffix(".exited").read_text())["exitCode"] for intent in intents]
    assert codes == [*range(8)]
    started_by = [json.loads(intent.with_suffix(".started").read_text())["shim"] for intent in intents]
    assert started_by == [started.pid for started in children]


async def test_a_server_that_was_closed_starts_no_shim(shims: ForkServer, tmp_path: Path) -> None:
    """A thread may ask while the kubelet ends: a shim that came of it then would not be known to who stops the Pods."""
    shims.close()
    with pytest.raises(OSError, match="any more"):
        shims.launch(make_intent(tmp_path / "pod/main", "true"))


async def test_a_forked_shim_that_fails_says_why(shims: ForkServer, tmp_path: Path) -> None:
    intent = make_intent(tmp_path / "pod/main", "true")
    intent.write_text("{")
    await ended(shims.start(intent, lambda: None))
    assert "JSONDecodeError" in intent.with_suffix(".shim").read_text()


SERVE = """
import sys, time
from steelyard_local_kubernetes.kubelet.shim_processes import ForkServer
server = ForkServer(sys.executable); server.begin(); print(server._pid, flush=True); time.sleep(60)
"""


def test_the_server_ends_with_its_kubelet() -> None:
    with subprocess.Popen([sys.executable, "-c", SERVE], cwd=ROOT, stdout=subprocess.PIPE) as kubelet:
        assert kubelet.stdout is not None
        server = os.pidfd_open(int(kubelet.stdout.readline()))
        kubelet.kill()

    ends, _, _ = select.select([server], [], [], 10)
    os.close(server)
    assert ends
