"""Templates that can multiply, each in a process of its own with a limit of time and memory.

`{{ 'a' * 10**9 }}` is made by one instruction, so that nothing in the same process can stop it. The process gets
rows, and answers with JSON.
"""

import json
import pickle
import select
import subprocess
import sys
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.prompts.compiled import TemplateFault, place

SECONDS = 5.0
"""Seconds for the template, and for each row."""
MEMORY_BYTES = 256 << 20
"""Memory that a template may take in addition to its process."""
_BEGIN_SECONDS = 60.0  # in which a busy machine begins a process


class _Source(NamedTuple):
    text: str
    name: str
    line: int


class ConfinedTemplate:
    """A function from a row to text."""

    def __init__(self, text: str, name: str, line: int) -> None:
        """UsageError when it is not Jinja, or needs too much to be compiled."""
        self._source = _Source(text, name, line)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._begin()
        except TemplateFault as error:
            raise UsageError(str(error)) from error

    def __call__(self, row: Mapping[str, JsonValue]) -> str:
        if self._process is None:
            self._begin()
        return self._ask(dict(row), SECONDS)

    def _begin(self) -> None:
        command = [sys.executable, "-m", "steelyard_evaluation.runs.prompts.confined_process"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._process = process
        self._end = weakref.finalize(self, _kill, process)
        self._read(_BEGIN_SECONDS)
        self._ask((*self._source, MEMORY_BYTES), SECONDS)

    def _ask(self, question: Any, seconds: float) -> str:
        assert self._process is not None
        assert self._process.stdin is not None
        data = pickle.dumps(question)
        try:
            self._process.stdin.write(len(data).to_bytes(8, "big") + data)
            self._process.stdin.flush()
        except OSError:
            self._fail(f"the template needs more than {MEMORY_BYTES >> 20} MB")
        status, text = self._read(seconds)
        if status == "fault":
            raise TemplateFault(text)
        return text

    def _read(self, seconds: float) -> tuple[str, str]:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            self._fail(f"the template needs more than {seconds:g} s for one row")
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            self._fail(f"the template needs more than {MEMORY_BYTES >> 20} MB")
        status, text = json.loads(line)
        return status, text

    def _fail(self, reason: str) -> NoReturn:
        """End the process, and raise TemplateFault; the next row begins another one."""
        self._end()
        self._process = None
        raise TemplateFault(f"{place(self._source.name, self._source.line, 1)}: {reason}")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:  # what was not written yet goes nowhere
                continue
    process.wait()
