"""Leftovers of uploads: files in `staging/` of entities that take none any more. The reaper looks for them.

The API discards an area once its upload is finalised. What stays is of uploads that expired, failed or were deleted
before, and what a crash left. The mark that an area is closed stays as long as its entity: no URL signed earlier may
write again.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from steelyard.broker.log import STATE, Log
from steelyard.services.judge import State, state_of
from steelyard.storage.staging import area_of
from steelyard.storage.store import Store

LEFT_FOR = timedelta(days=1)
"""Age from which on a file is a leftover: longer than a URL is good, and than a new entity takes to be judged."""
_PREFIX = "staging/"


async def discard_leftovers(store: Store, log: Log, now: datetime) -> int:
    """One look; how many objects were removed. Raises StorageError."""
    found = [info.key async for info in store.list(_PREFIX) if now - info.last_modified >= LEFT_FOR]
    ids = {_entity(key) for key in found}
    states = {id: state_of(await log.latest(STATE, id)) for id in ids}
    leftovers = [key for key in found if _is_leftover(key, states)]
    for key in leftovers:
        await store.delete(key)
    return len(leftovers)


def _is_leftover(key: str, states: Mapping[str, State | None]) -> bool:
    state = states[_entity(key)]
    if state is None or state.content is None:
        return True
    return area_of(key) is not None and state.content["status"] != "WaitingForUpload"


def _entity(key: str) -> str:
    return key.removeprefix(_PREFIX).partition("/")[0]
