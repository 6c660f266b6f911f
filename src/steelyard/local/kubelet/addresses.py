"""Each Pod's own loopback address: from a counter on disk that only grows, so that none is ever given twice.

A client that still holds the address of an ended Pod must not reach another one there.
"""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from steelyard.local.kubelet import shim


class NoAddressLeft(Exception):
    """The network has given out all that it has."""


class Addresses:
    """The counter in `<pods>/.addresses`; written before an address is handed out."""

    def __init__(self, path: Path, network: str) -> None:
        self.path, self.network = path, IPv4Network(network)

    def take(self) -> str:
        given = int(self.path.read_text()) if self.path.exists() else 0
        address = IPv4Address(int(self.network.network_address) + given + 1)
        if address not in self.network or address == self.network.broadcast_address:
            raise NoAddressLeft(
                f"{self.network} has given out all its addresses; start with a new state folder"
            )
        shim.write_bytes(str(self.path), str(given + 1).encode())
        return str(address)
