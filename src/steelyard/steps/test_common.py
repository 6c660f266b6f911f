"""Tests of how a step starts and ends: configuration, log lines, termination message, exit status."""

import asyncio
import errno
import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from steelyard.steps.common import Log, StepFailed, execute
from steelyard_evaluation.storage.store import ObjectMissing, StorageError, StorageFull
from steelyard_schema.steps import EXIT_OK, EXIT_PERMANENT, EXIT_RETRY, TERMINATION_BYTES, StepConfig

Run = Callable[..., tuple[int, dict[str, Any], list[dict[str, Any]]]]
CONFIG = {
    "schemaVersion": "0.1",
    "step": "test",
    "attempt": 1,
    "epoch": "e",
    "resource": {"kind": "Evaluation", "namespace": "default", "name": "n", "uid": "u"},
    "spec": {},
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(tmp_path / "termination"))

    def run(error: BaseException | None = None, config: str = json.dumps(CONFIG)) -> Any:
        async def main(_: StepConfig, log: Log) -> None:
            log.info("working", row=3)
            if error is not None:
                raise error

        (tmp_path / "config.json").write_text(config)
        out = io.StringIO()
        status = execute(main, Log("test", out), tmp_path / "config.json")
        lines = [json.loads(line) for line in out.getvalue().splitlines()]
        return status, json.loads((tmp_path / "termination").read_text()), lines

    return run


def test_a_step_that_succeeds(run: Run) -> None:
    status, termination, lines = run()
    assert (status, termination) == (EXIT_OK, {"code": "Complete", "message": ""})
    assert [(line["level"], line["message"]) for line in lines] == [("info", "working"), ("info", "done")]
    assert lines[0]["row"] == 3
    assert set(lines[0]) == {"time", "level", "step", "message", "row"}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        pytest.param(
            StepFailed("BadRequest", "no", permanent=True, row=7),
            EXIT_PERMANENT,
            "BadRequest",
            id="permanent",
        ),
        pytest.param(StepFailed("Busy", "no", permanent=False), EXIT_RETRY, "Busy", id="worth a retry"),
        pytest.param(ObjectMissing("file:///x"), EXIT_RETRY, "InputMissing", id="an input is absent"),
        pytest.param(StorageFull("file:///x"), EXIT_RETRY, "StorageFull", id="the storage is full"),
        pytest.param(
            StorageError("s3://b: no credentials"), EXIT_RETRY, "StorageFailed", id="no credentials"
        ),
        pytest.param(ZeroDivisionError("oops"), EXIT_RETRY, "Internal", id="a fault of ours"),
    ],
)
def test_how_a_step_fails(run: Run, error: Exception, status: int, code: str) -> None:
    outcome, termination, lines = run(error)
    assert (outcome, termination["code"]) == (status, code)
    assert termination["message"]
    assert (lines[-1]["level"], lines[-1]["exit"]) == ("error", status)


def test_a_step_whose_own_files_find_no_room_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step begins again whatever the error was wrapped in; an attempt that ended for it would be one of
    few.
    """
    monkeypatch.setattr("steelyard.steps.common.ROOM_SECONDS", 0.01)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(tmp_path / "termination"))
    epochs: list[str] = []

    async def main(config: StepConfig, _: Log) -> str:
        epochs.append(config.epoch)
        full = OSError(errno.ENOSPC, "No space left on device")
        if len(epochs) == 1:
            raise full
        if len(epochs) == 2:
            raise StepFailed("Internal", "cannot be written", permanent=False) from full
        return "done"

    assert execute(main, Log("test", io.StringIO()), tmp_path / "config.json") == EXIT_OK
    assert epochs == ["e", "e-again-0001", "e-again-0002"], "each may claim the output"


def test_sigterm_ends_a_step_whose_own_files_find_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(tmp_path / "termination"))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))

    async def main(_: StepConfig, __: Log) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        finally:
            raise OSError(errno.ENOSPC, "No space left on device")

    assert execute(main, Log("test", io.StringIO()), tmp_path / "config.json") == EXIT_RETRY


def test_a_file_of_another_form_is_reported_in_our_words(run: Run) -> None:
    with pytest.raises(ValidationError) as error:
        StepConfig.model_validate({**CONFIG, "colour": "red"})
    termination = run(error.value)[1]
    assert (termination["code"], termination["message"]) == (
        "Internal",
        "ValidationError: colour: is not a field here, with the value 'red'",
    )


def test_the_row_is_shown(run: Run) -> None:
    assert run(StepFailed("BadRequest", "no", permanent=True, row=7))[1]["row"] == "7"


def test_a_long_message_is_cut_so_that_it_stays_json(run: Run) -> None:
    _, termination, _ = run(StepFailed("Long", "é" * 10_000, permanent=True))
    assert 1000 < len(termination["message"].encode()) < TERMINATION_BYTES


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{}", "step: is missing"),
        ("no json", "Invalid JSON"),
        ('{"colour": "red"}', "colour: is not a field here, with the value 'red'; there are attempt, "),
    ],
    ids=["empty", "no JSON", "unknown field"],
)
def test_a_wrong_configuration_is_permanent(run: Run, config: str, message: str) -> None:
    status, termination, _ = run(config=config)
    assert (status, termination["code"]) == (EXIT_PERMANENT, "BadConfiguration")
    assert message in termination["message"]


def test_an_absent_configuration_is_worth_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(tmp_path / "termination"))

    async def main(_: StepConfig, __: Log) -> None:
        raise AssertionError

    assert execute(main, Log("test", io.StringIO()), tmp_path / "absent") == EXIT_RETRY
    assert json.loads((tmp_path / "termination").read_text())["code"] == "InputMissing"


def test_sigterm_ends_a_step_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(tmp_path / "termination"))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    cleaned = False

    async def main(_: StepConfig, __: Log) -> None:
        nonlocal cleaned
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        finally:
            cleaned = True

    assert execute(main, Log("test", io.StringIO()), tmp_path / "config.json") == EXIT_RETRY
    assert json.loads((tmp_path / "termination").read_text())["code"] == "Terminated"
    assert cleaned
