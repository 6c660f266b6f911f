"""Reports: their content, how often they come, and that none ends a training."""

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard import progress


class Tensor:
    """Has a number in it, as an array of one element has."""

    def __init__(self, value: float) -> None:
        self._value = value

    def item(self) -> float:
        return self._value


class Stubborn:
    def item(self) -> float:
        raise RuntimeError("more than one element")

    def __str__(self) -> str:
        return "[1, 2]"


def reporter(times: list[float]) -> tuple[Any, list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    return progress._Reporter(lambda: times[0], lambda text: lines.append(json.loads(text))), lines


def test_values_are_written_as_json_can_say_them() -> None:
    made, lines = reporter([0.0])
    made.report(
        {"step": 1, "total": 9, "loss": Tensor(0.5), "bad": float("nan"), "many": Stubborn(), "no": None}
    )
    assert lines == [{"progress": {"step": 1, "total": 9, "loss": 0.5, "bad": "nan", "many": "[1, 2]"}}]


def test_reports_in_quick_succession_are_thinned_and_the_last_one_is_written() -> None:
    times = [0.0]
    made, lines = reporter(times)
    for step in range(1, 8):
        times[0] = step / 10
        made.report({"step": step, "total": 10})
    made.close()
    made.close()
    assert [line["progress"]["step"] for line in lines] == [1, 6, 7]


def test_the_step_that_completes_is_written_at_once() -> None:
    made, lines = reporter([0.0])
    made.report({"step": 1, "total": 2})
    made.report({"step": 2, "total": 2})
    assert len(lines) == 2


def test_a_file_gets_the_reports_where_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_PROGRESS_FILE", str(tmp_path / "lines"))
    progress._write("{}")
    progress._write("{}")
    assert (tmp_path / "lines").read_text() == "{}\n{}\n"


@pytest.mark.parametrize("path", ["", "/nowhere/at/all"])
def test_nothing_that_goes_wrong_is_raised(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_PROGRESS_FILE", path)
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr(progress, "_REPORTER", progress._Reporter())
    progress.report(step=1, strange=object())
    progress.result(strange={1: {2}})


def test_the_result_goes_to_the_container_s_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = tmp_path / "termination"
    last.touch()
    monkeypatch.setenv("STEELYARD_MOUNTS", json.dumps({progress.TERMINATION_LOG: str(last)}))
    progress.result(accuracy=Tensor(0.5))
    progress.result(accuracy=Tensor(0.97))
    assert json.loads(last.read_text()) == {"accuracy": 0.97}
    progress.result(text="x" * 900, more=["y" * 900] * 5)
    assert json.loads(last.read_text()) == {"accuracy": 0.97}
