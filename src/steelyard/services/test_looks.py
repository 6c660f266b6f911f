"""Looks of the services at the log for one command: statements are counted, and no time is measured."""

import asyncio
from pathlib import Path

import pytest

from steelyard.broker.sqlite.log import open_sqlite_log
from steelyard.services.aggregator.aggregator import run_aggregator
from steelyard.services.simulation.commands import create, message
from steelyard.services.simulation.entities import make_model
from steelyard.services.sinks.view import run_view_sink
from steelyard.views.in_memory import MemoryView

COMMANDS = 30
FOLLOWERS = 4
MOST = 60
"""Statements for one command. With one for each partition, each look of each service took eight."""
VERSIONS = 16
"""Readings of the log's version for one command. Where each look and each wait read it again, it was read 24 times."""


async def test_a_command_takes_few_looks_at_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commits, of the command and of its state, wake every service; each looks until it finds nothing."""
    # What is done as time passes is not done for a command.
    monkeypatch.setattr("steelyard.sqlite.changes.SURE_SECONDS", 3600.0)
    monkeypatch.setattr("steelyard.broker.consume.WAIT_SECONDS", 3600.0)
    log, views = await open_sqlite_log(tmp_path / "log.db"), [MemoryView() for _ in range(FOLLOWERS)]
    stop, statements = asyncio.Event(), list[str]()
    async with asyncio.timeout(300), asyncio.TaskGroup() as group:
        group.create_task(run_aggregator(log, stop=stop))
        for view in views:
            group.create_task(run_view_sink(log, view, stop=stop))
        for number in range(COMMANDS):
            model = make_model(id=f"{number:032x}")
            if number == 1:  # the first one waits for the start of the services
                log.file.read_now(lambda connection: connection.set_trace_callback(statements.append))
            await log.publish([message(create(model))])
            for view in views:
                await _shown(view, model.id)
        stop.set()
    await log.close()
    looks = [statement for statement in statements if "FROM records" in statement]
    assert COMMANDS - 1 <= len(looks) <= MOST * (COMMANDS - 1)
    versions = [statement for statement in statements if "data_version" in statement]
    assert COMMANDS - 1 <= len(versions) <= VERSIONS * (COMMANDS - 1)


async def _shown(view: MemoryView, id: str) -> None:
    while True:
        version = view.version()
        if await view.find(id) is not None:
            return
        await view.wait_for_change(version, 5)
