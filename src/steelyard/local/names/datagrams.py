"""UDP forwarders: each port listens on a loopback address, and passes a client's datagrams to one Pod and its answers
back, until both have been quiet for a while.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from steelyard.local.names.choice import Choice
from steelyard.local.names.table import Address, Forwards

QUIET_SECONDS = 60.0
MOST_FLOWS = 1024  # of one port; the one that was begun first makes room


class DatagramForwarders:
    """All listening ports of UDP. `report` gets one line for each that cannot listen."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._choice = Choice(lambda: asyncio.get_running_loop().time())
        self._fronts: dict[Address, _Front] = {}
        self._failed: set[Address] = set()

    async def apply(self, forwards: Forwards, affinity: Mapping[Address, float]) -> None:
        """Listen on exactly these addresses."""
        self._choice.show(forwards, affinity)
        for address in self._fronts.keys() - forwards.keys():
            self._fronts.pop(address).close()
        for address in forwards.keys() - self._fronts.keys():
            try:
                front = _Front(address, self._choice)
                await asyncio.get_running_loop().create_datagram_endpoint(
                    partial(_same, front), local_addr=address
                )
                self._fronts[address] = front
            except OSError as error:
                if address not in self._failed:
                    self._failed.add(address)
                    place = f"{address[0]}:{address[1]}/UDP"
                    self._report(f"a Service or Pod cannot listen on {place}: {error.strerror}")
        self._failed &= forwards.keys()

    def close(self) -> None:
        for front in self._fronts.values():
            front.close()
        self._fronts.clear()


def _same(front: "_Front") -> "_Front":
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
            self._choice.answered(self._address, client[0], behind)
            flow = self._flows[client] = _Flow(behind, client, self._transport, self._flows)
            if len(self._flows) > MOST_FLOWS:
                next(iter(self._flows.values())).close()
        flow.send(data)

    def close(self) -> None:
        for flow in list(self._flows.values()):
            flow.close()
        if self._transport is not None:
            self._transport.close()


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
        """Close the flow: nobody listens there. The client's next datagram asks again."""
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
