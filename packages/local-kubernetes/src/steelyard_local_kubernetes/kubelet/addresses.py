"""Each Pod's own loopback address: from a counter on disk that only grows, round and round through the network.

A client that still holds the address of an ended Pod must not reach another one there. An address comes again only
when all others have had their turn, no Pod has it, and the last one that had it has been gone for `REST_SECONDS`.
"""

import os
import struct
import time
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from steelyard_local_kubernetes.kubelet import shim

AHEAD = 32
REST_SECONDS = 3600
_CELL = struct.Struct("<Q")
_FREE, _TAKEN = 0, 2**64 - 1


class NoAddressLeft(Exception):
    """All addresses of the network are in use, or were until lately."""


class Addresses:
    """The counter in `<pods>/.addresses`; written before an address is handed out.

    When many are asked for, it is written ahead: a kubelet that dies then passes over the rest of at most `AHEAD`.
    `.addresses.ends` has a cell for each address: when its last Pod went (seconds), or that it is taken.
    """

    def __init__(self, path: Path, network: str, now: Callable[[], float] = time.time) -> None:
        self.path, self.network, self._now = path, IPv4Network(network), now
        self._size = self.network.num_addresses - 2
        self._given = self._reserved = int(path.read_text()) if path.exists() else 0
        self._ahead = 1
        ends = path.with_name(f"{path.name}.ends")
        before = min(self._given, self._size) if not ends.exists() else 0
        self._ends = os.open(ends, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for place in range(before):  # of a kubelet that did not write down ends: they rest from now on
            self._write(place, int(now()))

    def adopt(self, taken: Iterable[str]) -> None:
        """Begin with the addresses of the Pods that are there: they are taken, others that were are so no more."""
        places = {self._place(address) for address in taken}
        for place in range(self._size):
            is_taken = self._read(place) == _TAKEN
            if place in places and not is_taken:
                self._write(place, _TAKEN)
            elif is_taken and place not in places:
                self._write(place, int(self._now()))

    def take(self) -> str:
        """The next one whose turn it is. Raises NoAddressLeft."""
        now = int(self._now())
        for number in range(self._given, self._given + self._size):
            place = number % self._size
            ended = self._read(place)
            if ended == _FREE or (ended != _TAKEN and now - ended >= REST_SECONDS):
                self._count_to(number + 1)
                self._write(place, _TAKEN)
                return str(IPv4Address(int(self.network.network_address) + place + 1))
        raise NoAddressLeft(
            f"all {self._size} addresses of {self.network} are in use, or were within the last {REST_SECONDS} s"
        )

    def release(self, address: str) -> None:
        """Release an address whose Pod is gone as a whole."""
        # The settings may name another network than when the Pod got its address.
        if IPv4Address(address) in self.network:
            self._write(self._place(address), int(self._now()))

    def close(self) -> None:
        os.close(self._ends)

    def _count_to(self, number: int) -> None:
        if number > self._reserved:
            shim.write_bytes(str(self.path), str(number - 1 + self._ahead).encode())
            self._reserved = number - 1 + self._ahead
            self._ahead = min(2 * self._ahead, AHEAD)
        self._given = number

    def _place(self, address: str) -> int:
        return int(IPv4Address(address)) - int(self.network.network_address) - 1

    def _read(self, place: int) -> int:
        cell = os.pread(self._ends, _CELL.size, place * _CELL.size)
        return int(_CELL.unpack(cell)[0]) if len(cell) == _CELL.size else _FREE

    def _write(self, place: int, value: int) -> None:
        # Not flushed: after a power loss no Pod runs, their sandboxes say which addresses are taken,
        # and the counter keeps the others from coming again soon.
        os.pwrite(self._ends, _CELL.pack(value), place * _CELL.size)
