"""Each Pod's own loopback address: from a counter on disk that only grows, so that none is ever given twice.

A client that still holds the address of an ended Pod must not reach another one there.
"""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from steelyard.local.kubelet import shim

AHEAD = 32


class NoAddressLeft(Exception):
    """The network has given out all that it has."""


class Addresses:
    """The counter in `<pods>/.addresses`; written before an address is handed out.

    When many are asked for, it is written ahead: a kubelet that dies then loses the rest of at most `AHEAD` addresses.
    """

    def __init__(self, path: Path, network: str) -> None:
        self.path, self.network = path, IPv4Network(network)
        self._given = self._reserved = int(path.read_text()) if path.exists() else 0
        self._ahead = 1

    def take(self) -> str:
        address = IPv4Address(int(self.network.network_address) + self._given + 1)
        if address not in self.network or address == self.network.broadcast_address:
            raise NoAddressLeft(
                f"{self.network} has given out all its addresses; start with a new state folder"
            )
        if self._given == self._reserved:
            shim.write_bytes(str(self.path), str(self._reserved + self._ahead).encode())
            self._reserved += self._ahead
            self._ahead = min(2 * self._ahead, AHEAD)
        self._given += 1
        return str(address)
