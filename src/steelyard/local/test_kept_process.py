"""A child process of the supervisor: started, watched, started again, ended."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.local.kept_process import KeptProcess, Program, next_delay
from steelyard.local.leftovers import end_leftovers, living
from steelyard.local.state import Record, process_start
from steelyard_common.errors import SteelyardError

PROGRAM = """
import asyncio, sys
from steelyard.local.pipe import Orders, take_orders
async def main():
    orders = Orders()
    ready = take_orders(int(sys.argv[-1]), orders)
    print("up", flush=True)
    ready()
    await orders.stop.wait()
    print("end_pods", orders.end_pods.is_set(), flush=True)
asyncio.run(main())
"""


def make_child(folder: Path, said: list[str], code: str = PROGRAM) -> KeptProcess:
    program = Program("demo", [sys.executable, "-c", code], folder / "demo.log")
    return KeptProcess(program, said.append, lambda: None)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110  (another process does it)
            await asyncio.sleep(0.01)


async def test_a_child_is_ready_when_it_says_so_and_ends_with_its_pods(tmp_path: Path) -> None:
    child = make_child(tmp_path, [])
    await child.start(20)
    assert child.identity is not None
    pid, started = child.identity
    await child.end(20)
    assert living([(pid, started)]) == []
    assert (tmp_path / "demo.log").read_text() == "up\nend_pods True\n"


async def test_a_child_that_dies_is_started_again_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    child = make_child(tmp_path, said)
    await child.start(20)
    first = child.identity
    assert first is not None
    os.kill(first[0], signal.SIGKILL)
    await until(lambda: child.restarts and child.identity is not None)
    assert child.restarts == 1
    assert child.identity != first
    assert "demo was killed by signal 9" in said[0]
    await child.end(20)


@pytest.mark.parametrize(
    ("before", "healthy", "after"),
    [
        pytest.param(0.2, 0.0, 0.4, id="it doubles"),
        pytest.param(3.2, 0.0, 5.0, id="it ends at five seconds"),
        pytest.param(5.0, 59.0, 5.0, id="less than a minute is not enough"),
        pytest.param(30.0, 1.0, 5.0, id="after a refusal it is that of other ends"),
        pytest.param(5.0, 60.0, 0.2, id="it begins anew after a healthy minute"),
    ],
)
def test_the_delay_before_a_start_again(before: float, healthy: float, after: float) -> None:
    assert next_delay(before, healthy) == after


async def test_a_first_start_that_fails_shows_the_log(tmp_path: Path) -> None:
    child = make_child(tmp_path, [], "import sys; sys.exit('the disk is full')")
    with pytest.raises(SteelyardError, match=r"ended before it was ready(?s:.*)the disk is full"):
        await child.start(20)
    await child.end(1)


async def test_a_child_ends_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    """The supervisor is another process, which is killed; its child must follow and leave the Pods alone."""
    code = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom steelyard.local.kept_process import KeptProcess, Program\n"
        "async def main():\n"
        "    program = Program('demo', [sys.executable, '-c', sys.argv[1]], Path(sys.argv[2]))\n"
        "    child = KeptProcess(program, print, lambda: None)\n"
        "    await child.start(20)\n"
        "    print(child.identity[0], flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, PROGRAM, str(tmp_path / "demo.log"), stdout=asyncio.subprocess.PIPE
    )
    assert supervisor.stdout is not None
    pid = int(await supervisor.stdout.readline())
    started = process_start(pid)
    supervisor.kill()
    await supervisor.wait()
    await until(lambda: not living([(pid, started)]))
    assert (tmp_path / "demo.log").read_text() == "up\nend_pods False\n"


async def test_leftovers_are_ended_and_reused_pids_are_not(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    one = await asyncio.create_subprocess_exec(sys.executable, "-c", deaf, stdout=asyncio.subprocess.PIPE)
    assert one.stdout is not None
    await one.stdout.readline()
    started = process_start(one.pid)
    another = Record(children={"operator": (one.pid, "1")})  # the pid is the same, the process is not
    await end_leftovers(another)
    assert process_start(one.pid) == started
    await end_leftovers(Record(children={"operator": (one.pid, started)}), patience=0.2)
    assert await one.wait() == -signal.SIGKILL


async def test_a_child_waits_for_room_and_is_started_then(tmp_path: Path) -> None:
    said, full = list[str](), [False]
    program = Program("demo", [sys.executable, "-c", PROGRAM], tmp_path / "demo.log")
    child = KeptProcess(program, said.append, lambda: None, lambda: not full[0])
    await child.start(20)
    assert child.identity is not None
    full[0] = True
    os.kill(child.identity[0], signal.SIGKILL)
    await until(lambda: said)
    assert "it starts again once the disk has room" in said[0]
    assert not (tmp_path / "demo.log").read_text().count("up") > 1
    full[0] = False
    await until(lambda: child.identity is not None)
    await child.end(20)


async def test_a_child_whose_log_cannot_be_opened_for_a_while_is_tried_again(tmp_path: Path) -> None:
    said: list[str] = []
    child = make_child(tmp_path, said)
    await child.start(20)
    assert child.identity is not None
    log = tmp_path / "demo.log"
    log.unlink()
    log.mkdir()
    os.kill(child.identity[0], signal.SIGKILL)
    await until(lambda: any("cannot be started" in line for line in said))
    log.rmdir()
    await until(lambda: child.identity is not None)
    await child.end(20)
