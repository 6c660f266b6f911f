"""Services that begin again when an engine has failed."""

import asyncio

import pytest

from steelyard.local import resuming
from steelyard.local.resuming import in_short, retry_engine_failures
from steelyard_common.errors import EngineError, Refused


class Flaky:
    """A service that fails with the given errors, one at each beginning, and then ends well."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.begun = 0

    async def run(self) -> None:
        self.begun += 1
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(resuming, "LONGEST_PAUSE", 0.002)


async def test_a_service_begins_again_after_failures_of_an_engine() -> None:
    group = ExceptionGroup("two of its tasks", [EngineError("away"), ConnectionResetError()])
    service = Flaky(EngineError("away"), OSError("no route"), group)
    await retry_engine_failures("sink", service.run)
    assert service.begun == 4


async def test_a_service_of_several_tasks_begins_again_when_one_of_them_fails() -> None:
    """A task group that fails has cancelled the task in which it runs: the backup has two sinks in one."""
    service = Flaky(EngineError("away"), EngineError("still away"))

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(service.run())
            group.create_task(asyncio.sleep(0.01))

    await retry_engine_failures("backup-sink", run)
    assert service.begun == 3


async def test_a_service_that_is_cancelled_ends_whatever_it_raises_then() -> None:
    begun = asyncio.Event()

    async def run() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise EngineError("away")

    task = asyncio.create_task(retry_engine_failures("sink", run))
    await begun.wait()
    task.cancel()
    with pytest.raises(EngineError):
        await task


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a fault of our own"),
        Refused("another installation's"),
        OSError(28, "No space left on device"),
        ExceptionGroup("mixed", [EngineError("away"), ValueError("a fault of our own")]),
    ],
)
async def test_what_does_not_pass_is_raised_at_once(error: Exception) -> None:
    service = Flaky(error)
    with pytest.raises(type(error)):
        await retry_engine_failures("sink", service.run)
    assert service.begun == 1


async def test_a_server_that_stays_away_ends_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "PATIENCE_SECONDS", 0.05)
    service = Flaky(*[EngineError("away")] * 10_000)
    with pytest.raises(EngineError):
        await retry_engine_failures("sink", service.run)
    assert service.begun > 1


async def test_patience_begins_again_after_steady_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(resuming, "STEADY_SECONDS", -1.0)
    service = Flaky(*[EngineError("away")] * 20)
    await retry_engine_failures("sink", service.run)
    assert service.begun == 21


async def test_a_cancelled_service_does_not_begin_again() -> None:
    begun = asyncio.Event()

    async def run() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            raise EngineError("on the way out")

    task = asyncio.create_task(retry_engine_failures("sink", run))
    await begun.wait()
    task.cancel()
    with pytest.raises(EngineError):
        await task


async def test_the_message_is_that_of_the_first_error() -> None:
    inner = ExceptionGroup("inner", [EngineError("no\nanswer"), ValueError("b")])
    assert in_short(ExceptionGroup("outer", [inner])) == "no answer"
    assert in_short(EngineError()) == "EngineError"
