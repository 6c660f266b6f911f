"""`steelyard train` as a user gives it: real workers, real signals, and the exit status of the job.

One platform for all but the test that starts its own; jobs are apart by their names.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from steelyard.cli.train.foreground import TOGETHER_SECONDS
from tests.integration.conftest import Machine, host_pid, processes_of

pytestmark = pytest.mark.e2e

PROGRAM = """
import os, sys, time
from pathlib import Path
from steelyard.progress import report, result

rank, steps, ends = int(os.environ["RANK"]), int(sys.argv[1]), int(sys.argv[2])
go = os.environ.get("GO")
kept = Path(f"{os.environ['JOB']}-{rank}")
start = int(kept.read_text()) if kept.exists() else 0
print(f"rank {rank} of {os.environ['WORLD_SIZE']} from {start} pid {os.getpid()}")
for step in range(start + 1, steps + 1):
    time.sleep(0.1)
    new = kept.with_suffix(".new")  # whole or not at all, whenever this process is killed
    new.write_text(str(step))
    new.replace(kept)
    report(step=step, total=steps, loss=1 / step)
if go:
    print("all is saved")
while go and not Path(go).exists():
    time.sleep(0.05)
if rank == 1 and ends:
    print("the last words", file=sys.stderr)
    sys.exit(ends)
result(accuracy=0.5, rank=rank)
"""
JSON = ("--display", "json")
Events = list[dict[str, object]]


class Shell:
    """Commands in one folder, with one state folder."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine, self.folder = machine, folder
        self.started: list[subprocess.Popen[str]] = []
        (folder / "train.py").write_text(PROGRAM)

    def start(self, *words: str, terminal: int | None = None) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "steelyard.cli.main", "train", *words]
        where = ["--state-dir", str(self.machine.state.path)]
        split = command.index("--") if "--" in command else len(command)
        process = subprocess.Popen(
            [*command[:split], *where, *command[split:]],
            cwd=self.folder,
            stdin=terminal,
            stdout=terminal or subprocess.PIPE,
            stderr=terminal or subprocess.PIPE,
            env=os.environ | {"TERM": "xterm"},
            text=True,
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        """End what a test that failed has left running, so that its open pipes fail no other test."""
        for process in self.started:
            process.kill()
            process.wait()
            for pipe in filter(None, (process.stdout, process.stderr)):
                pipe.close()

    def train(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def job(self, name: str, workers: int, steps: int, ends: int = 0, *more: str) -> tuple[str, ...]:
        """The words of a run."""
        flags = ("--framework", "pytorch", "--workers", str(workers), "--name", name, "--env", f"JOB={name}")
        return ("run", "train.py", *flags, *more, "--", str(steps), str(ends))

    def held(self, name: str, workers: int, *more: str) -> tuple[str, ...]:
        """The words of a run of three steps, which ends only once `let_go` is called."""
        return self.job(name, workers, 3, 0, "--env", f"GO={name}.go", *more)

    def let_go(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()

    def pid(self, name: str, replica: str) -> int:
        """The machine's number of a replica's program, once it has said its own."""
        _, said, _ = self.until(
            lambda: self.train("logs", name, "--replica", replica), lambda out: "pid" in out[1]
        )
        number = int(re.findall(r"pid (\d+)", said)[-1])
        return host_pid(number, f"JOB={name}", f"RANK={replica.rpartition('-')[2]}")

    def until(
        self, ask: Callable[[], tuple[int, str, str]], holds: Callable[[tuple[int, str, str]], bool]
    ) -> tuple[int, str, str]:
        end = time.monotonic() + 60
        while not holds(said := ask()):
            assert time.monotonic() < end, said
            time.sleep(0.1)
        return said


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("STEELYARD_"):
                patch.delenv(name)
        folder = tmp_path_factory.mktemp("train")
        machine = Machine(folder / "state")
        machine.up("platform")
        with closing(Shell(machine, folder)) as shell:
            yield shell
        machine.down()
    assert processes_of(machine.state.path) == []


def read_events(text: str) -> Events:
    return [json.loads(line) for line in text.splitlines()]


def ended(events: Events) -> dict[str, object]:
    assert events[-1]["event"] == "ends", events
    return events[-1]


def test_four_workers_train_and_the_end_is_reported(shell: Shell) -> None:
    code, out, err = shell.train(*shell.job("four", 4, 8))
    assert (code, err) == (0, "")
    for rank in range(4):
        assert out.count(f"worker-{rank} | rank {rank} of 4 from 0 pid") == 1
    assert "step 1 of 8" in out
    assert re.search(
        r"pytorchjob/four succeeded (after .* s|within a second)\nresult: accuracy 0.5, rank 0\n$", out
    )
    code, out, _ = shell.train("describe", "four")
    assert "Progress: step 8 of 8, loss 0.125" in out
    assert len(re.findall(r"worker-\d  Succeeded  1", out)) == 4
    assert shell.train("wait", "four")[0] == 0
    code, out, _ = shell.train("list", "-o", "json")
    assert json.loads(out)[0]["metadata"]["name"] == "four"


def test_a_failed_program_gives_its_exit_status_and_its_last_words(shell: Shell) -> None:
    code, out, _ = shell.train(*shell.job("fails", 2, 2, 3))
    assert code == 3
    assert re.search(
        r"pytorchjob/fails failed (after .* s|within a second): worker-1 ended with exit code 3\n", out
    )
    assert "  its last lines:\n" in out
    assert "    the last words\n" in out
    assert shell.train("wait", "fails")[0] == 3
    assert "Failed because worker-1 ended with exit code 3 (attempt 1" in shell.train("describe", "fails")[1]


def test_a_killed_worker_starts_all_again_and_no_line_comes_twice(shell: Shell) -> None:
    running = shell.start(*shell.held("killed", 2))
    out = read_lines(running, "worker-0 | all is saved", "worker-1 | all is saved")
    os.kill(shell.pid("killed", "worker-1"), signal.SIGKILL)
    out += read_lines(running, "worker-0 | rank 0 of 2 from 3", "worker-1 | rank 1 of 2 from 3")
    shell.let_go("killed")
    out += read_rest(running)
    assert running.returncode == 0, out
    assert "worker-1 was killed (SIGKILL, exit code 137); both replicas start again (restart 1)" in out
    starts = re.findall(r"worker-(\d) \| rank \d of 2 from (\d+) pid", out)
    assert sorted(starts) == [("0", "0"), ("0", "3"), ("1", "0"), ("1", "3")]
    assert ", with 1 restart\n" in out


def test_a_job_is_left_followed_stopped_and_resumed(shell: Shell) -> None:
    code, out, _ = shell.train(*shell.held("left", 2, "--detach"))
    assert code == 0
    assert "train logs -f left" in out
    following = shell.start("logs", "-f", "left")
    first = read_lines(following, "worker-0 | rank 0 of 2")
    assert shell.train("stop", "left")[0] == 0
    shell.until(lambda: shell.train("list"), lambda said: "Suspended" in said[1])
    code, _, err = shell.train("delete", "lef")
    assert (code, "there are left" in err) == (2, True)
    assert shell.train("resume", "left")[0] == 0
    shell.let_go("left")
    assert shell.train("wait", "left", "--timeout", "60")[0] == 0
    out = first + read_rest(following)
    assert following.returncode == 0
    assert len(re.findall(r"worker-0 \| rank 0 of 2 from \d+ pid", out)) == 2
    assert "pytorchjob/left is stopped\n" in out
    assert "pytorchjob/left goes on\n" in out
    assert "pytorchjob/left succeeded" in out
    assert shell.train("resume", "left")[0] == 2


def test_two_signals_stop_a_job(shell: Shell) -> None:
    running = shell.start(*shell.held("signalled", 2, *JSON))
    read_lines(running, "rank 0 of 2")
    running.send_signal(signal.SIGINT)
    read_lines(running, "interrupted; another signal")  # two that come together count as one
    time.sleep(TOGETHER_SECONDS)
    running.send_signal(signal.SIGTERM)
    out = read_rest(running)
    assert running.returncode == 130
    assert ended(read_events(out))["stopped"] is True
    _, out, _ = shell.train("list")
    assert re.search(r"signalled +PyTorch +Suspended", out)
    assert shell.train("delete", "signalled")[0] == 0


@pytest.mark.parametrize(("key", "code", "state"), [("s", 130, "Suspended"), ("d", 0, "Running")])
def test_a_person_is_asked(key: str, code: int, state: str, shell: Shell) -> None:
    ours, theirs = pty.openpty()
    name = f"asked-{key}"
    running = shell.start(*shell.held(name, 1), terminal=theirs)
    os.close(theirs)
    said = read_until(ours, "is running")
    running.send_signal(signal.SIGINT)
    said += read_until(ours, "stop it (s")
    os.write(ours, key.encode())
    said += read_until(ours, "train resume" if key == "s" else "stop it:")
    os.close(ours)
    assert running.wait(30) == code
    assert "\r\x1b[2K" in said  # the line of status
    assert re.search(rf"{name} +PyTorch +{state}", shell.train("list")[1])
    assert shell.train("delete", name)[0] == 0


def read_lines(command: subprocess.Popen[str], *texts: str) -> str:
    """Return what the command prints until each of the texts has come."""
    assert command.stdout is not None
    said = ""
    for line in command.stdout:
        said += line
        if all(text in said for text in texts):
            return said
    raise AssertionError(said)


def read_rest(command: subprocess.Popen[str]) -> str:
    """Return what the command prints until it has ended."""
    assert command.stdout is not None
    with command:
        return command.stdout.read()


def read_until(terminal: int, text: str) -> str:
    said, end = "", time.monotonic() + 60
    while text not in said:
        assert time.monotonic() < end, said
        if select.select([terminal], [], [], 1)[0]:
            said += os.read(terminal, 65536).decode(errors="replace")
    return said


def test_what_does_not_fit_says_so_and_what_cannot_be_is_refused(shell: Shell) -> None:
    code, _, err = shell.train(*shell.job("a" * 63, 1, 1))
    assert code == 2
    assert "choose a name of at most 54" in err
    running = shell.start(*shell.job("large", 1, 1, 0, "--cpus", "5000"))
    assert running.stdout is not None
    said = "".join(islice(running.stdout, 2))
    assert "worker-0 waits: Unschedulable" in said
    assert shell.train("delete", "large")[0] == 0
    _, err = running.communicate(timeout=30)
    assert (running.returncode, "large: was deleted" in err) == (1, True)


def test_without_a_platform_one_is_started_and_ended(machine: Machine, tmp_path: Path) -> None:
    shell = Shell(machine, tmp_path)
    code, _, err = shell.train("list")
    assert (code, "start it with:" in err) == (2, True)
    code, out, _ = shell.train(*shell.job("alone", 1, 2))
    assert (code, "starting Kubernetes and the operator" in out) == (0, True), out
    assert processes_of(machine.state.path) == []
