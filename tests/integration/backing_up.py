"""Program that writes commands to a log, applies them and backs them up, until it is killed. Argument: the folder."""

import asyncio
import itertools
import sys
from contextlib import suppress
from pathlib import Path

from steelyard.broker.open import open_log
from steelyard.services.backup.settings import BackupSettings
from steelyard.services.backup.sink import run_archive_sink
from steelyard.services.simulation.commands import aggregate, create, forget, labels, message, status
from steelyard.services.simulation.entities import make_dataset
from steelyard.storage.store import open_store


async def work(folder: Path) -> None:
    log = await open_log(f"sqlite:{folder / 'log.db'}", 3)
    store = open_store((folder / "backup").as_uri())
    stop = asyncio.Event()
    settings = BackupSettings(segment_seconds=1, snapshot_hours=0.0001, keep_days=0)
    sink = asyncio.create_task(run_archive_sink(log, store, settings, stop=stop))
    print("begun", flush=True)
    with suppress(asyncio.CancelledError):
        for number in itertools.count():
            entity = make_dataset(f"d{number % 23}-{number // 230}")
            await aggregate(
                log,
                message(create(entity)),
                message(labels(entity, a=str(number))),
                *([message(status(entity, "Deleted"))] if number % 5 == 0 else []),
                *([message(forget(entity), "reaper")] if number % 10 == 0 else []),
            )
            if sink.done():
                await sink


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))
