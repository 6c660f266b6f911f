"""Leftovers of uploads: files in `staging/` of entities that take none any more. The reaper searches for them.

The API discards an area once its upload is finalised. What stays is of uploads that expired, failed or were deleted
before, and what a crash left. The mark that an area is closed stays as long as its entity: no URL signed earlier may
write again.
"""

import asyncio
from datetime import datetime, timedelta

from steelyard.broker.log import STATE, Log
from steelyard.broker.quarantine.dead_letters import describe_error
from steelyard.broker.quarantine.marks import Aside
from steelyard.broker.scan import PIECE
from steelyard.services.aggregator.messages import read_state
from steelyard_common.errors import is_engine_failure
from steelyard_evaluation.storage.staging import find_area
from steelyard_evaluation.storage.store import Store

LEFT_FOR = timedelta(days=1)
"""Age from which on a file is a leftover: longer than a URL is good, and than a new entity takes to be judged."""
_PREFIX = "staging/"


async def discard_leftovers(store: Store, log: Log, now: datetime, aside: Aside) -> int:
    """Check all staged files once; return how many were removed. Raises StorageError.

    A file that cannot be examined or removed puts its entity aside, and the others go on.
    """
    count = number = 0
    failed: set[str] = set()
    async for info in store.list(_PREFIX):
        number += 1
        if number % PIECE == 0:
            await asyncio.sleep(0)  # a list, and what lies in the log, may be read without ever waiting
        if now - info.last_modified < LEFT_FOR:
            continue
        try:
            state = read_state(await log.latest(STATE, _entity(info.key)))
            content = state.content if state else None
            # What no entity waits for: an upload that was finished or given up, or one whose entity is gone.
            finished = content is not None and find_area(info.key) and content["status"] != "WaitingForUpload"
            if content is None or finished:
                await store.delete(info.key)
                count += 1
        except Exception as error:
            if is_engine_failure(error):
                raise
            failed.add(_entity(info.key))
            await aside.put(_entity(info.key), describe_error(error))
    for key in aside.keys - failed:
        await aside.clear(key)
    return count


def _entity(key: str) -> str:
    return key.removeprefix(_PREFIX).partition("/")[0]
