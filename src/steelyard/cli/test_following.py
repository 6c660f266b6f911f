"""Lines of a workflow that are shown: the newest, and those that are written."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from steelyard.cli.following import LATE_SECONDS, MOST_LINES, Log, follow, show_newest
from steelyard.services.simulation.entities import make_evaluation
from steelyard_schema.answers import WorkflowLogEntry, WorkflowLogsResponse
from steelyard_schema.base import EntityIdentifier


def line(second: int, message: str, pod: str = "p1") -> WorkflowLogEntry:
    time = f"2030-01-01T00:{second // 60:02}:{second % 60:02}Z"
    return WorkflowLogEntry(timestamp=time, message=message, labels={"pod_uid": pod})


@dataclass
class Workflow:
    """A workflow whose log grows with each pause, and which ends with the last of them."""

    written: list[list[WorkflowLogEntry]]
    """Lines that are there at the beginning, and those that each pause adds."""
    times: list[int] = field(default_factory=lambda: [1])
    """Length of each pause; the last one counts for those that follow."""
    asked: list[tuple[str | None, int]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    now: int = 100
    step: int = 0

    def get(self, id: str) -> Any:
        return SimpleNamespace(status="Complete" if self.step == len(self.written) - 1 else "Admitted")

    def logs(self, id: str, *, since: str | None = None, limit: int = 1000) -> WorkflowLogsResponse:
        self.asked.append((since, limit))
        lines = sorted(
            (line for step in self.written[: self.step + 1] for line in step), key=lambda line: line.timestamp
        )
        if since is not None:
            after = line(max(0, self.now - int(since.removesuffix("s"))), "").timestamp
            lines = [line for line in lines if line.timestamp >= after]
        identifier = EntityIdentifier(id=id, kind="Evaluation")
        return WorkflowLogsResponse(workflow=identifier, logs=lines[-limit:], totalLines=len(lines))

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += self.times[min(self.step, len(self.times) - 1)]
        self.step += 1


@dataclass
class Screen:
    """A screen that keeps all lines and notes."""

    messages: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show(self, lines: Iterable[WorkflowLogEntry]) -> None:
        self.messages.extend(line.message for line in lines)

    def log(self, workflow: Workflow, limit: int) -> Log:
        return Log(workflow, "evaluations", "e1", limit, self.show, self.notes.append)


def shown(workflow: Workflow, since: str | None = None, limit: int = 1000) -> list[str]:
    screen = Screen()
    follow(screen.log(workflow, limit), since, pause=workflow.pause, clock=lambda: float(workflow.now))
    return screen.messages


def test_each_line_is_shown_once_until_the_workflow_ends() -> None:
    workflow = Workflow([[line(99, "a")], [line(100, "b")], [], [line(101, "c"), line(102, "d")]])
    assert shown(workflow) == ["a", "b", "c", "d"]


def test_a_line_of_a_pod_is_not_shown_again_when_the_log_is_kept_with_milliseconds() -> None:
    precise, kept = line(99, "a"), line(99, "a")
    precise.timestamp = precise.timestamp.replace("Z", ".403252329Z")
    kept.timestamp = kept.timestamp.replace("Z", ".403000Z")
    assert shown(Workflow([[precise], [kept, line(100, "b")]])) == ["a", "b"]


def test_equal_texts_of_other_times_and_pods_are_lines_of_their_own() -> None:
    workflow = Workflow([[line(99, "a")], [line(99, "a", "p2"), line(100, "a")]])
    assert shown(workflow) == ["a", "a", "a"]


def test_a_line_that_comes_late_is_shown() -> None:
    workflow = Workflow([[line(100, "a")], [line(100 - LATE_SECONDS // 2, "late", "p2")]])
    assert shown(workflow) == ["a", "late"]


def test_of_what_is_there_the_newest_lines_are_shown_and_the_rest_never_is() -> None:
    workflow = Workflow([[line(97, "a"), line(98, "b"), line(99, "c")], [line(100, "d")]])
    assert shown(workflow, limit=2) == ["b", "c", "d"]


def test_a_long_pause_loses_nothing() -> None:
    workflow = Workflow([[], [line(number, str(number)) for number in range(101, 700)]], times=[600])
    assert shown(workflow) == [str(number) for number in range(101, 700)]


def test_the_pause_grows_while_nothing_is_written() -> None:
    nothing: list[list[WorkflowLogEntry]] = [[] for _ in range(8)]
    workflow = Workflow([[line(99, "a")], *nothing, [line(110, "b")], *nothing[:2]])
    assert shown(workflow) == ["a", "b"]
    assert workflow.pauses == [1, 1.5, 2.25, 3.375, 5, 5, 5, 5, 5, 1, 1.5]


def test_what_has_ended_is_asked_once() -> None:
    workflow = Workflow([[line(99, "a")]])
    assert shown(workflow, since="90s") == ["a"]
    assert [since for since, _ in workflow.asked] == ["90s"]


@pytest.mark.parametrize("steps", [1, 5])
def test_lines_that_stay_within_the_window_are_not_shown_again(steps: int) -> None:
    assert shown(Workflow([[line(99, "a")], *[[] for _ in range(steps)]])) == ["a"]


def newest(workflow: Workflow, limit: int, since: str | None = None) -> Screen:
    screen = Screen()
    show_newest(screen.log(workflow, limit), since)
    return screen


def test_what_is_left_out_is_said_with_the_way_to_all() -> None:
    lines = [line(number, str(number)) for number in range(60)]
    screen = newest(Workflow([lines]), 2)
    assert screen.messages == ["58", "59"]
    assert screen.notes == [f"earlier lines that are not shown: 58; --limit {MOST_LINES} shows all"]
    assert newest(Workflow([lines]), 60).notes == []
    assert newest(Workflow([[]]), 60).notes == ["nothing is written yet"]


def test_more_lines_than_one_answer_holds_are_in_a_file() -> None:
    (note,) = newest(Workflow([[line(0, "a")] * (MOST_LINES + 5)]), MOST_LINES).notes
    assert note.startswith("earlier lines that are not shown: 5; ")
    assert note.endswith("GET /v0/evaluations/e1/logs, once the workflow has ended")


def test_who_follows_hears_what_is_left_out_before_and_meanwhile() -> None:
    screen, many = Screen(), [line(100, "b")] * (MOST_LINES + 5)
    workflow = Workflow([[line(97, "a"), line(98, "b"), line(99, "c")], many])
    follow(screen.log(workflow, 2), None, pause=workflow.pause, clock=lambda: float(workflow.now))
    assert screen.messages[:2] == ["b", "c"]
    assert screen.notes[0].startswith("earlier lines that are not shown: 1;")
    assert screen.notes[1].startswith("up to 8 lines came faster")


class Endless(BaseHTTPRequestHandler):
    """Answers of a platform on which one evaluation runs for ever and writes nothing."""

    asked = threading.Event()

    def do_GET(self) -> None:
        entity = make_evaluation(status="Admitted").dump()
        logs = {"workflow": {"id": entity["id"], "kind": "Evaluation"}, "logs": [], "totalLines": 0}
        is_log = "/logs/" in self.path
        body = json.dumps(logs if is_log else entity if entity["id"] in self.path else [entity]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if is_log:
            self.asked.set()

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


PROGRAM = """
import signal
from steelyard.cli.main import main

# A shell starts what runs in the background so that Ctrl-C does nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


def test_ctrl_c_ends_it_without_a_word() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v0"
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "logs", "-f", "evaluation", "e1"],
            env={**os.environ, "STEELYARD_API_ENDPOINT": url, "STEELYARD_API_TOKEN": "t"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            assert Endless.asked.wait(60)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
            server.shutdown()
    assert (process.returncode, output) == (130, b"")
