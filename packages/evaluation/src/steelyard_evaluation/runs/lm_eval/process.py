"""lm-eval in a process of its own, which builds a task once: it sends the requests, waits for answers, and sends the
results.

`build` starts it and leaves it waiting while our engine makes the calls; `replay` gives it the answers. Where it has
ended, because the run goes on in another command, `replay` starts it again. Its pools of processes, its log and
whatever a task prints stay out of ours. `python -m steelyard_evaluation.runs.lm_eval.process` is that process.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import IO

import orjson

from steelyard_common.errors import SteelyardError, UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.runs.lm_eval.task_name import MISSING, NoLmEval, TaskName

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
_waiting: dict[TaskName, "LmEval"] = {}
"""Processes that have built their requests. They end when this process does: their standard input is closed then."""


class CannotReplay(UsageError):
    """The answers are not those to the requests that lm-eval builds here."""


class LmEval:
    """The process, seen from outside."""

    def __init__(self, name: TaskName) -> None:
        if importlib.util.find_spec("lm_eval") is None:
            raise NoLmEval(f"--task lm_eval:{name.task}: {MISSING}")
        # The interpreter's own path includes what a test or an editable install added at run time.
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "steelyard_evaluation.runs.lm_eval.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | {"PYTHONPATH": path, "TQDM_DISABLE": "1"},
            start_new_session=True,  # Ctrl-C is for the run, which stops orderly
        )
        self._send(asdict(name))

    def requests(self) -> list[dict[str, JsonValue]]:
        """The rows that it asks, and waits for; UsageError says why there are none."""
        reply = self._read()
        if "error" in reply:
            self.close()
            raise UsageError(reply["error"])
        rows: list[dict[str, JsonValue]] = reply["requests"]
        return rows

    def results(self, answers: Sequence[JsonValue], digests: Sequence[str | None]) -> dict[str, JsonValue]:
        """Return lm-eval's results for the answers to its requests; ReportFailed says why there are none."""
        try:
            self._send({"answers": list(answers), "digests": list(digests)})
            reply = self._read()
        finally:
            self.close()
        if "error" in reply:
            raise ReportFailed("LmEvalFailed", reply["error"])
        return reply

    def close(self) -> None:
        """End it; it leaves nothing behind."""
        for pipe in (self._process.stdin, self._process.stdout):
            # Closing sends what is left in the buffer, to a process that may have ended: what it said counts.
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        self._process.wait()
        self._log.close()

    def _send(self, value: JsonValue) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE))
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # what it wrote last says why it ended

    def _read(self) -> dict[str, JsonValue]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._log.seek(0)
            last = self._log.read().decode(errors="replace").strip().splitlines()[-1:]
            raise ReportFailed("LmEvalFailed", f"lm-eval ended: {(last or [f'exit status {status}'])[0]}")
        reply: dict[str, JsonValue] = orjson.loads(line)
        return reply


def build(name: TaskName) -> list[dict[str, JsonValue]]:
    """The rows of a task. The process that built them waits for `replay`."""
    if (before := _waiting.pop(name, None)) is not None:
        before.close()
    process = LmEval(name)
    rows = process.requests()
    _waiting[name] = process
    return rows


def replay(
    name: TaskName, answers: Sequence[JsonValue], digests: Sequence[str | None]
) -> dict[str, JsonValue]:
    """lm-eval's results; `digests` are of the prompts that were answered, to be compared with those it builds."""
    process = _waiting.pop(name, None)
    if process is None:
        process = LmEval(name)
        # Built again only to compare: the digests tell whether they are the requests that were asked.
        process.requests()
    return process.results(answers, digests)


def prompt_text(prompt: JsonValue) -> str:
    return prompt if isinstance(prompt, str) else orjson.dumps(prompt).decode()


def prompt_digest(prompt: JsonValue) -> str:
    """Return the digest by which a prompt is recognised."""
    return hashlib.sha256(prompt_text(prompt).encode(errors="surrogatepass")).hexdigest()[:16]


def check_prompts(name: TaskName, prompts: Sequence[JsonValue], digests: Sequence[str | None]) -> None:
    """CannotReplay unless these are the digests of just these prompts."""
    if len(digests) > len(prompts):
        raise CannotReplay(f"{len(digests)} requests were asked; lm-eval builds {len(prompts)} here")
    for number, prompt in enumerate(prompts):
        digest = digests[number] if number < len(digests) else None
        if digest is None:
            raise CannotReplay(
                f"request {number} of lm-eval was not asked; to ask fewer, use --task lm_eval:{name.task}?limit=N"
            )
        if digest != prompt_digest(prompt):
            raise CannotReplay(f"row {number}: lm-eval builds another request here than was asked")


def main() -> int:
    """The process itself: requests out, answers in, results out."""
    from steelyard_evaluation.runs.lm_eval.model import Request, evaluate

    # The answers' channel is moved away from 1 first: a task's `print` would otherwise stand between two
    # messages.
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever lm-eval and its tasks print
    name = TaskName(**orjson.loads(sys.stdin.buffer.readline()))

    def exchange(requests: Sequence[Request]) -> Sequence[JsonValue]:
        _send(channel, {"requests": [asdict(request) for request in requests]})
        line = sys.stdin.buffer.readline()
        if not line:  # the command that wanted the results has ended
            raise SystemExit(0)
        message = orjson.loads(line)
        check_prompts(name, [request.prompt for request in requests], message["digests"])
        answers: list[JsonValue] = message["answers"]
        return answers

    try:
        outcome = evaluate(name, exchange)
        if not outcome["documents"]:
            raise UsageError(f"--task lm_eval:{name.task}: has no requests")
    except SteelyardError as error:
        outcome = {"error": str(error)}
    _send(channel, outcome)
    return 0


def _send(stream: IO[bytes], value: JsonValue) -> None:
    stream.write(orjson.dumps(value, default=str, option=_OPTIONS))
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
