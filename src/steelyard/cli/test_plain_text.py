"""Texts of others on the terminal: nothing in them moves the cursor or turns the direction."""

import io
import json
import re
import subprocess
import sys
import traceback
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

import pytest

from steelyard.cli import display, transfer
from steelyard.cli.eval import display as eval_display
from steelyard.cli.output import describe, render
from steelyard.cli.plain_text import PlainStream
from steelyard.cli.train import screen
from steelyard.steps.common import Log, StepFailed
from steelyard_common.errors import UsageError, escape, one_line
from steelyard_evaluation.engine.table_files import BadTable

HOSTILE = "".join(
    [
        *("\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\r", "\b\b", "\x00", "\x7f", "\x0b\x0c"),
        *(
            "\u202e",
            "\u2066",
            "\u2069",
            "\u200f",
            "\u061c",
            "\u200b",
            "\u2028",
            "\ufeff",
            "\U000e0041",
            "\ud800",
        ),
    ]
)
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def acting(text: str) -> set[str]:
    """Return the characters that act on a terminal, found by their categories: controls, directions, line ends."""
    kinds = {"Cc", "Cf", "Zl", "Zp", "Cs"}
    return {letter for letter in text if unicodedata.category(letter) in kinds and letter not in "\n\t"}


def test_what_acts_is_shown_as_its_code_in_the_form_of_json() -> None:
    shown = escape(HOSTILE)
    assert acting(shown) == set()
    assert json.loads(f'"{shown}"') == HOSTILE
    assert one_line("a\nb\tc\r\n") == "a\\nb\\tc\\r\\n"


@pytest.mark.parametrize("text", ["", "plain\n\ttext", "Größe 你好 🎉 e\u0301", "a\r\nb", "नमस्ते क्\u200dष"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert escape(text) == text


def entity() -> dict[str, Any]:
    return {
        "id": "0d19",
        "kind": "Report",
        "name": f"n\n{HOSTILE}",
        "account": f"a{HOSTILE}",
        "status": "Failed",
        "reason": f"R{HOSTILE}",
        "message": f"m\n{HOSTILE}",
        "labels": {"k": HOSTILE},
        "creationTime": NOW.isoformat(),
        "annotations": [{"key": "k", "value": HOSTILE}],
    }


def _display(out: io.StringIO) -> None:
    shown = display.LiveDisplay()
    shown.say(HOSTILE)
    shown.show([display.Row("Report", HOSTILE, "Failed", HOSTILE)])
    shown.close()


def _eval_display(out: io.StringIO) -> None:
    shown = eval_display.Live()
    for say in (shown.says, shown.warning, shown.step):
        say(HOSTILE)
    shown.close()


def _train_screen(out: io.StringIO) -> None:
    shown = screen.Live(out)
    shown.line("r", HOSTILE, "")
    shown.say(HOSTILE)
    shown.status(HOSTILE, {})
    shown.close()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _transfer(out: io.StringIO) -> None:
    # As `main` does it: all that is printed is escaped, but for what moves the cursor.
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(sys, "stderr", PlainStream(shown := _Terminal()))
    with transfer._progress("uploading") as show:
        show(f"a{HOSTILE}", 1, 2)
    monkeypatch.undo()
    assert "\\u001b[?25l" not in shown.getvalue(), "the bar moves the cursor itself"
    out.write(re.sub(r"\x1b\[\??[0-9;]*[a-zA-Z]", "", shown.getvalue()))


def _error(out: io.StringIO) -> None:
    for error in (UsageError(HOSTILE), StepFailed("Bad", HOSTILE, permanent=True), BadTable(HOSTILE)):
        out.write("".join(traceback.format_exception_only(error)))


def _entity(form: str, out: io.StringIO) -> None:
    print(render([entity()], form, "reports", single=True, now=NOW), file=cast(Any, PlainStream(out)))


OUTPUTS: dict[str, Callable[[io.StringIO], object]] = {
    "table": partial(_entity, "table"),
    "json": partial(_entity, "json"),
    "yaml": partial(_entity, "yaml"),
    "name": partial(_entity, "name"),
    "describe": lambda out: print(describe(entity(), "reports", NOW), file=cast(Any, PlainStream(out))),
    "print": lambda out: print(HOSTILE, file=cast(Any, PlainStream(out))),
    "run": _display,
    "upload": _transfer,
    "traceback": _error,
    "the log of a step": lambda out: Log("t", out).warning(HOSTILE, path=HOSTILE),
    "eval": _eval_display,
    "train": _train_screen,
}
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[2K|\r")
"""Codes that the displays themselves write: colours, and the beginning of a line that is drawn again."""


@pytest.mark.parametrize("output", OUTPUTS)
def test_no_output_acts_on_the_terminal(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    OUTPUTS[output](out)
    monkeypatch.undo()
    text = OURS.sub("", out.getvalue())
    assert acting(text) == set()
    assert "\\u001b[2J" in text or "\\e[2J" in text or output == "name"


def test_a_name_is_one_line_of_a_table() -> None:
    table = render([entity()], "table", "reports", single=False, now=NOW)
    assert len(table.splitlines()) == 2


def test_a_command_prints_no_code_of_its_arguments() -> None:
    command = [sys.executable, "-m", "steelyard.cli.main", "run", "/nowhere/\x1b[2J\u202e"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert acting(done.stdout + done.stderr) == set()
    assert "/nowhere/\\u001b[2J\\u202e" in " ".join((done.stdout + done.stderr).split())
