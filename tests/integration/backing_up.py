"""Program that writes commands to a log, applies them and backs them up, until it is killed.

Arguments: the addresses of log and backup, the number of partitions. Its clock runs fast: segments, snapshots and the
removal of old ones happen every few moments.
"""

import asyncio
import itertools
import secrets
import sys
import time
from contextlib import suppress

from steelyard.broker.open import open_log
from steelyard.services.aggregator.aggregator import run_aggregator
from steelyard.services.backup.settings import BackupSettings
from steelyard.services.backup.sink import run_archive_sink
from steelyard.services.simulation.commands import create, forget, labels, message, status
from steelyard.services.simulation.entities import make_dataset
from steelyard_evaluation.storage.store import open_store

SPEED = 300
RUN = secrets.token_hex(4)
"""Beginning of this run's ids: no earlier run has deleted or forgotten its entities."""


async def work(address: str, backup: str, partitions: int) -> None:
    log = await open_log(address, partitions)
    stop = asyncio.Event()
    settings = BackupSettings(segment_seconds=60, snapshot_hours=0.0001, keep_days=0)
    sink = asyncio.create_task(
        run_archive_sink(
            log, open_store(backup), settings, stop=stop, monotonic=lambda: time.monotonic() * SPEED
        )
    )
    aggregator = asyncio.create_task(run_aggregator(log, stop=stop))
    print("begun", flush=True)
    with suppress(asyncio.CancelledError):
        for number in itertools.count():
            entity = make_dataset(f"{RUN}-d{number % 23}-{number // 230}")
            await log.publish(
                [
                    message(create(entity)),
                    message(labels(entity, a=str(number))),
                    *([message(status(entity, "Deleted"))] if number % 5 == 0 else []),
                    *([message(forget(entity), "reaper")] if number % 10 == 0 else []),
                ]
            )
            # Others have their turn: the commands are to be worked on while more are written.
            await asyncio.sleep(0.005)
            for task in (sink, aggregator):
                if task.done():
                    await task


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], int(sys.argv[3])))
