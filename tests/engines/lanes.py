"""Runs suites side by side, each in a process of its own: most of them wait for servers most of the time."""

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LEFT_OUT = 77
"""Exit status of a suite that cannot run here; the last line that it printed is the reason."""


@dataclass(frozen=True)
class Result:
    """End of a suite: its exit status, the seconds that it took, and all that it printed."""

    name: str
    status: int
    seconds: float
    output: str

    @property
    def reason(self) -> str:
        """The last line printed."""
        return (self.output.strip().splitlines() or ["no reason given"])[-1]


@dataclass
class Summary:
    """Suites that passed, that failed, that were left out, with the reason, and that did not run because they passed
    with the same inputs, with the commit.

    A suite whose name begins with one of `needed` is not left out: that is a failure, which names the missing tool.
    """

    needed: Mapping[str, str]
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)

    def add(self, result: Result) -> None:
        there = next((words for start, words in self.needed.items() if result.name.startswith(start)), None)
        if result.status == LEFT_OUT and there is not None:
            self.failed.append(f"{result.name}: left out, though {there} are there: {result.reason}")
        elif result.status == LEFT_OUT:
            self.left_out.append(f"{result.name}: {result.reason}")
        else:
            (self.failed if result.status else self.passed).append(result.name)

    def add_unchanged(self, name: str, commit: str) -> None:
        self.unchanged.append(f"{name}: passed at {commit} with the same inputs")

    def __str__(self) -> str:
        lines = [f"ran: {name}" for name in self.passed] + [f"unchanged: {name}" for name in self.unchanged]
        lines += [f"left out: {name}" for name in self.left_out] + [f"failed: {name}" for name in self.failed]
        counts = f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.left_out)} skipped"
        if self.unchanged:
            counts += f", {len(self.unchanged)} unchanged"
        return "\n".join([*lines, counts])


def run_side_by_side(commands: Mapping[str, Sequence[str]], at_once: int) -> Generator[Result, None, None]:
    """Run the commands, begun in their order; yield each result when it is known.

    A command that is still running when the caller stops listening is ended.
    """
    waiting = list(commands.items())
    running: list[subprocess.Popen[bytes]] = []
    results: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def begin() -> None:
        name, command = waiting.pop(0)
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the command has ended
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            # Both streams go to one file: a buffered one would come last, and its last line would be the reason.
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        running.append(process)

        def finish() -> None:
            status = process.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
            output.close()
            results.put(Result(name, status, time.monotonic() - began, text))

        threading.Thread(target=finish, name=f"waits for {name}", daemon=True).start()

    try:
        for _ in range(len(commands)):
            while waiting and sum(process.poll() is None for process in running) < at_once:
                begin()
            yield results.get()
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
        for process in running:
            process.wait()


def lanes() -> int:
    """Return how many suites run at once: one for each processor, two at most, whose servers fit into memory."""
    return min(2, os.cpu_count() or 1)


def command_of(name: str) -> list[str]:
    """Return the command that runs one suite by itself."""
    return [sys.executable, "-m", "tests.engines", "--alone", name]
