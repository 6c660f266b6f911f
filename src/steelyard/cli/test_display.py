"""Progress of `steelyard run` in lines: what prints, and how often."""

import io
from pathlib import Path

import pytest

from steelyard.cli.display import LiveDisplay, PlainDisplay, Row, open_display
from steelyard.cli.eval.display import Live
from steelyard_common.errors import UsageError
from steelyard_evaluation.runs.folder import RunFolder


def lines(*shown: tuple[float, Row]) -> list[str]:
    out, now = io.StringIO(), 0.0
    display = PlainDisplay(out, clock=lambda: now)
    for now, row in shown:  # noqa: B007 - the clock reads it
        display.show([row])
    return out.getvalue().splitlines()


def test_a_waiting_resource_prints_nothing() -> None:
    assert lines((0, Row("Model", "m"))) == []


def test_a_change_of_status_prints_at_once_and_progress_once_a_second() -> None:
    printed = lines(
        (0.0, Row("Evaluation", "e", "ClientRunning", "1 of 10")),
        (0.1, Row("Evaluation", "e", "ClientRunning", "2 of 10")),
        (1.2, Row("Evaluation", "e", "ClientRunning", "5 of 10")),
        (1.3, Row("Evaluation", "e", "Complete", "Verified")),
    )
    assert [line.split(maxsplit=3)[3] for line in printed] == [
        "ClientRunning: 1 of 10",
        "ClientRunning: 5 of 10",
        "Complete: Verified",
    ]


def test_what_does_not_change_prints_once() -> None:
    assert len(lines(*[(second, Row("Model", "m", "Fetching")) for second in (0.0, 2.0, 4.0)])) == 1


def test_an_unknown_display_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="auto, rich, plain or none"):
        open_display("loud")


def test_a_name_in_brackets_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    display = LiveDisplay()
    display.show([Row("Model", "m", "Failed", "cannot read [/data/model] of [bold]")])
    display.close()
    assert "[/data/model] of [bold]" in " ".join(capsys.readouterr().out.split())


def test_a_step_of_a_run_in_brackets_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    display = Live()
    display.begins(RunFolder(Path("runs/x")), 1, 0)
    display.step("judging by [/judge]")
    display.close()
    assert "runs/x" in capsys.readouterr().out
