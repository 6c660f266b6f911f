"""UDP forwarders: each port listens on a loopback address, and passes a client's datagrams to one Pod and its answers
back, until both have been quiet for a while. With no Pod ready nothing listens, so that a datagram is answered as on a
cluster: the port cannot be reached.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from steelyard_local_kubernetes.names.choice import Choice
from steelyard_local_kubernetes.names.table import Address, Forwards
from steelyard_local_kubernetes.names.taken import RETRY_SECONDS, TakenAddresses

QUIET_SECONDS = 60.0
MOST_FLOWS = 1024  # of one port; the one that was begun first makes room


class DatagramForwarders:
    """All listening ports of UDP.

    `report` gets one line for each that cannot listen; `retry` asks for another `apply`.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        retry: Callable[[], None],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._taken = TakenAddresses(report, retry, retry_seconds, "UDP")
        self._choice = Choice(lambda: asyncio.get_running_loop().time())
        self._fronts: dict[Address, _Front] = {}

    async def apply(self, forwards: Forwards, affinity: Mapping[Address, float]) -> None:
        """Listen on exactly those addresses that lead somewhere."""
        self._choice.show(forwards, affinity)
        wanted = {front for front, behind in forwards.items() if behind}
        for address in self._fronts.keys() - wanted:
            self._fronts.pop(address).close()
            # The loop closes the socket in its next turn; before, the next `apply` could not have the port.
            await asyncio.sleep(0)
        for address in wanted - self._fronts.keys():
            await self._listen(address)
        self._taken.end_of_round(forwards.keys())

    async def _listen(self, address: Address) -> None:
        front, loop = _Front(address, self._choice), asyncio.get_running_loop()
        try:
            await loop.create_datagram_endpoint(partial(_identity, front), local_addr=address)
        except OSError as error:
            self._taken.add(address, error)
        else:
            self._fronts[address] = front
            self._taken.remove(address)

    def close(self) -> None:
        self._taken.close()
        for front in self._fronts.values():
            front.close()
        self._fronts.clear()


def _identity(front: "_Front") -> "_Front":
    return front


class _Front(asyncio.DatagramProtocol):
    """One listening port: a flow for each client."""

    def __init__(self, address: Address, choice: Choice) -> None:
        self._address, self._choice = address, choice
        self._transport: asyncio.DatagramTransport | None = None
        self._flows: dict[Address, _Flow] = {}

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        client: Address = addr[0], addr[1]
        flow = self._flows.get(client)
        # A Pod that is gone or not ready any more gets nothing further.
        if flow is None or not self._choice.is_behind(self._address, flow.behind):
            if flow is not None:
                flow.close()
            behind = next(self._choice.order(self._address, client[0]), None)
            if behind is None or self._transport is None:
                return
            self._choice.note_answer(self._address, client[0], behind)
            flow = self._flows[client] = _Flow(behind, client, self._transport, self._flows)
            if len(self._flows) > MOST_FLOWS:
                next(iter(self._flows.values())).close()
        flow.send(data)

    def close(self) -> None:
        for flow in list(self._flows.values()):
            flow.close()
        if self._transport is not None:
            # Answers that wait to be sent must not keep the port open.
            self._transport.abort()


class _Flow(asyncio.DatagramProtocol):
    """One client's socket towards a Pod."""

    def __init__(
        self,
        behind: Address,
        client: Address,
        front: asyncio.DatagramTransport,
        flows: "dict[Address, _Flow]",
    ) -> None:
        self.behind = behind
        self._client, self._front, self._flows = client, front, flows
        self._waiting: list[bytes] = []
        self._transport: asyncio.DatagramTransport | None = None
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(self._open())
        self._quiet = loop.call_later(QUIET_SECONDS, self.close)

    async def _open(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.create_datagram_endpoint(lambda: self, remote_addr=self.behind)
        except OSError:
            self.close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        for data in self._waiting:
            transport.sendto(data)
        self._waiting.clear()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._restart_timer()
        self._front.sendto(data, self._client)

    def error_received(self, exc: Exception) -> None:
        """Close the flow: no program listens there. The client's next datagram asks again."""
        self.close()

    def send(self, data: bytes) -> None:
        self._restart_timer()
        if self._transport is None:
            self._waiting.append(data)
        else:
            self._transport.sendto(data)

    def _restart_timer(self) -> None:
        self._quiet.cancel()
        self._quiet = asyncio.get_running_loop().call_later(QUIET_SECONDS, self.close)

    def close(self) -> None:
        self._quiet.cancel()
        self._opening.cancel()
        if self._flows.get(self._client) is self:
            del self._flows[self._client]
        if self._transport is not None:
            self._transport.close()
