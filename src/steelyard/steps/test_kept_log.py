"""A step's log in storage: in time, in order, whatever storage does and whatever kills the step."""

import asyncio
import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.steps import kept_log
from steelyard.steps.common import Log, StepFailed, StepMain, execute
from steelyard.steps.example import make_config
from steelyard.steps.kept_log import KeptLog, whole_log
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.store import StorageError
from steelyard_schema.steps import EXIT_OK, EXIT_PERMANENT, StepConfig

POD = "aaaaaaaa-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"
FIRST, SECOND = f".dyff/logs/{POD}/000000", f".dyff/logs/{POD}/000001"


class Failing(FileStore):
    """Refuses the first writes."""

    def __init__(self, root: Path, refusals: int) -> None:
        super().__init__(root)
        self.left = refusals

    async def put(self, key: str, data: bytes) -> None:
        self.left -= 1
        if self.left >= 0:
            raise StorageError("the disk is on fire")
        await super().put(key, data)


def messages(data: bytes) -> list[str]:
    return [json.loads(line)["message"] for line in data.splitlines()]


def run(folder: Path, main: StepMain, monkeypatch: pytest.MonkeyPatch, pod: str = POD) -> int:
    monkeypatch.setenv("POD_UID", pod)
    monkeypatch.setenv("STEELYARD_TERMINATION_LOG", str(folder / "termination"))
    spec = {"storage": {"output": f"file://{folder}/output"}}
    (folder / "config.json").write_text(make_config("test", "Report", spec).model_dump_json())
    return execute(main, Log("test", io.StringIO()), folder / "config.json")


async def quick(_: StepConfig, log: Log) -> None:
    log.info("working")


def test_the_whole_log_is_there_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path, quick, monkeypatch) == EXIT_OK
    output = tmp_path / "output"
    assert messages((output / FIRST).read_bytes()) == ["working", "done"]
    assert (output / ".dyff/logs.txt").read_bytes() == (output / FIRST).read_bytes()


def test_a_step_that_fails_keeps_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(_: StepConfig, log: Log) -> None:
        raise StepFailed("Hopeless", "there is no way", permanent=True)

    assert run(tmp_path, main, monkeypatch) == EXIT_PERMANENT
    assert messages((tmp_path / "output/.dyff/logs.txt").read_bytes()) == ["there is no way"]


def test_pieces_come_while_the_step_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_log, "PIECE_SECONDS", 0.02)
    seen: list[str] = []

    async def main(_: StepConfig, log: Log) -> None:
        log.info("first")
        while not (tmp_path / "output" / FIRST).exists():  # noqa: ASYNC110 - another task writes it
            await asyncio.sleep(0.005)
        seen.extend(messages((tmp_path / "output" / FIRST).read_bytes()))
        log.info("second")

    assert run(tmp_path, main, monkeypatch) == EXIT_OK
    assert seen == ["first"]
    assert messages((tmp_path / "output" / SECOND).read_bytes()) == ["second", "done"]
    assert messages((tmp_path / "output/.dyff/logs.txt").read_bytes()) == ["first", "second", "done"]


def test_the_pods_of_an_entity_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def second(_: StepConfig, log: Log) -> None:
        log.info("working again")

    run(tmp_path, quick, monkeypatch)
    run(tmp_path, second, monkeypatch, pod=OTHER)  # sorts before the first by its uid
    whole = messages((tmp_path / "output/.dyff/logs.txt").read_bytes())
    assert whole == ["working", "done", "working again", "done"]


@pytest.mark.parametrize("refusals", [1, 2, 3])
async def test_what_storage_refuses_waits_and_arrives_once(tmp_path: Path, refusals: int) -> None:
    store = Failing(tmp_path, refusals)
    log = KeptLog(store, POD)
    for number in range(6):
        log.add(f'{{"message": "{number}"}}\n')
        await log._write()
    await log.close()
    assert messages(await store.get(".dyff/logs.txt")) == [str(number) for number in range(6)]
    assert log.trouble == ""


async def test_what_no_longer_fits_into_memory_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_log, "MOST_BYTES", 60)  # three lines
    store = Failing(tmp_path, 5)
    log = KeptLog(store, POD)
    for number in range(6):
        log.add(f'{{"message": "{number}"}}\n')
        await log._write()
    assert messages(await store.get(FIRST)) == [
        "3 lines are missing here: storage did not take them",
        "3",
        "4",
        "5",
    ]


def test_trouble_with_storage_fails_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "output").write_text("a file where a folder should be")
    assert run(tmp_path, quick, monkeypatch) == EXIT_OK
    assert "the log is not kept in storage" in capsys.readouterr().err


def test_a_store_that_hangs_does_not_hold_the_step_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: FileStore, key: str, data: bytes) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(FileStore, "put", never)
    monkeypatch.setattr(kept_log, "END_SECONDS", 0.05)
    monkeypatch.setattr(kept_log, "PIECE_SECONDS", 0.01)
    assert run(tmp_path, quick, monkeypatch) == EXIT_OK


def test_a_signal_that_comes_too_late_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = FileStore.put

    async def signalled(self: FileStore, key: str, data: bytes) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await put(self, key, data)

    monkeypatch.setattr(FileStore, "put", signalled)
    assert run(tmp_path, quick, monkeypatch) == EXIT_OK


@pytest.mark.parametrize("variable", ["", "../up"])
def test_without_a_pod_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    assert run(tmp_path, quick, monkeypatch, pod=variable) == EXIT_OK
    assert not (tmp_path / "output").exists()


STEP = """
import asyncio
from steelyard.steps import kept_log
from steelyard.steps.common import run_step

kept_log.PIECE_SECONDS = 0.05

async def main(config, log):
    for number in range(100_000):
        log.info(str(number))
        await asyncio.sleep(0.001)

run_step(main, "test")
"""


async def test_a_kill_loses_the_last_piece_at_most_and_the_whole_log_says_so(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"storage": {"output": f"file://{tmp_path}/output"}}
    config = tmp_path / "config.json"
    config.write_text(make_config("test", "Report", spec).model_dump_json())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STEP, "--config", str(config)),
        env=os.environ | {"POD_UID": POD},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    lines = []
    try:
        async with asyncio.timeout(60):
            while not (tmp_path / "output" / f".dyff/logs/{POD}/000003").exists():
                lines.append(await process.stdout.readline())
    finally:
        process.kill()
    lines += (await process.stdout.read()).splitlines()
    await process.wait()
    store = FileStore(tmp_path / "output")
    kept = messages(b"".join([piece async for piece in whole_log(store)]))
    assert "ends without its last words" in kept.pop()
    assert kept == [str(number) for number in range(len(kept))]
    assert len(lines) >= len(kept) > 0
    assert len(lines) - len(kept) < 150  # a piece holds about 50 lines
