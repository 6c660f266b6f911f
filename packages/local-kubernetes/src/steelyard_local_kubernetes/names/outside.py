"""Addresses of names outside the cluster, to which Services of type ExternalName lead.

The machine's resolver is asked for them, and asked again, since they change. `run.py` gives the names.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable

REFRESH_SECONDS = 30.0


class OutsideNames:
    """Lookups of names, in tasks of their own; `changed` is called when the addresses of a name change."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.addresses: dict[str, tuple[str, ...]] = {}

    def follow(self, names: Iterable[str]) -> None:
        """Resolve exactly these names from now on."""
        current = set(names)
        for name in self._tasks.keys() - current:
            self._tasks.pop(name).cancel()
            self.addresses.pop(name, None)
        for name in current - self._tasks.keys():
            self._tasks[name] = asyncio.create_task(self._follow(name))

    async def _follow(self, name: str) -> None:
        while True:
            addresses = await _resolve(name)
            # A name keeps its addresses while the resolver does not answer.
            if addresses and addresses != self.addresses.get(name):
                self.addresses[name] = addresses
                self._changed()
            await asyncio.sleep(REFRESH_SECONDS)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def _resolve(name: str) -> tuple[str, ...]:
    """Return the name's IPv4 addresses, sorted; empty where the lookup fails."""
    try:
        answers = await asyncio.get_running_loop().getaddrinfo(
            name, None, family=socket.AF_INET, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        return ()
    return tuple(sorted({str(answer[4][0]) for answer in answers}))
