"""TCP forwarders: each port of a Service listens on the Service's own loopback address, each node port and host port
on the machine's, and passes connections on to the ready addresses behind it. With none ready nothing listens, so that
a connection is refused as on a cluster.

`run.py` calls `apply` on every change. An address that cannot be bound (a port below 1024 without the right to it)
is reported once and tried again at the next change.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from steelyard_local_kubernetes.names.choice import Choice
from steelyard_local_kubernetes.names.table import Address, Forwards
from steelyard_local_kubernetes.names.taken import RETRY_SECONDS, TakenAddresses

CHUNK = 1 << 16
CONNECT_SECONDS = 5.0


class Forwarders:
    """All listening ports. `report` gets one line for each that cannot listen; `retry` asks for another `apply`."""

    def __init__(
        self,
        report: Callable[[str], None],
        retry: Callable[[], None],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._taken = TakenAddresses(report, retry, retry_seconds, "TCP")
        self._choice = Choice(lambda: asyncio.get_running_loop().time())
        self._servers: dict[Address, asyncio.Server] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def apply(
        self,
        forwards: Forwards,
        affinity: Mapping[Address, float] = MappingProxyType({}),
        spare: Collection[Address] = (),
    ) -> None:
        """Listen on exactly those addresses that lead somewhere; connections that exist go on.

        Spare ones are not reported.
        """
        self._choice.show(forwards, affinity)
        fronts = {front for front, behind in forwards.items() if behind}
        for address in self._servers.keys() - fronts:
            self._servers.pop(address).close()
        for address in fronts - self._servers.keys():
            await self._listen(address, spare=address in spare)
        self._taken.end_of_round(forwards.keys())

    async def close(self) -> None:
        self._taken.close()
        for server in self._servers.values():
            server.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._servers.clear()

    async def _listen(self, address: Address, *, spare: bool) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._running.add(task)
            try:
                await self._forward(address, reader, writer)
            finally:
                self._running.discard(task)

        try:
            self._servers[address] = await asyncio.start_server(accept, *address)
        except OSError as error:
            self._taken.add(address, error, spare=spare)
        else:
            self._taken.remove(address)

    async def _forward(
        self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            there = await self._connect(address, str(writer.get_extra_info("peername")[0]))
            if there is None:
                return
            try:
                await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
            finally:
                there[1].close()
        except (OSError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    async def _connect(
        self, front: Address, client: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to the first one that accepts."""
        for address in self._choice.order(front, client):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    there = await asyncio.open_connection(*address)
            except (OSError, TimeoutError):
                continue
            self._choice.note_answer(front, client, address)
            return there
        return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on until the end, and then that end: the other direction may still have something to say."""
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
