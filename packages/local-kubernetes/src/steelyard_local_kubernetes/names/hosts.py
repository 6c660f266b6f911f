"""A hosts file that Pods see as /etc/hosts, changed in place: programs that are mapping or reading it go on doing so.

Readers take no lock, so no moment may show them a line that never was meant. Each line therefore has a slot of
fixed size that never crosses a page. A line is switched on and off by its first byte alone: `#` hides it, and the first
byte of its address shows it. A slot is written only while hidden, and a hidden slot is used again only after
`QUARANTINE` seconds, when no reader can be in the middle of it. `run.py` is the only writer.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from steelyard_local_kubernetes.names.table import Entry

SLOT = 1024  # divides a page; an address and three names of a Pod below a Service fit, however long
QUARANTINE = 5.0
HIDDEN = b"#"


class HostsFile:
    """Opens `path`, making it when absent, and keeps what it finds there: Pods that outlived a run still read it."""

    def __init__(self, path: Path, fixed: Iterable[str] = ("127.0.0.1 localhost",)) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._shown: dict[str, int] = {}  # line -> slot
        self._hidden: dict[int, float] = {}  # slot -> the time from which it may be used again
        self._slots = 0
        if not self._adopt():
            os.ftruncate(self._descriptor, 0)
        for line in fixed:
            if line not in self._shown and len(line.encode()) < SLOT:
                self._shown[line] = self._append(line.encode())
        self._fixed = frozenset(fixed)

    def close(self) -> None:
        os.close(self._descriptor)

    def show(self, entries: Iterable[Entry], now: float) -> None:
        """Make the entries the file's content; `now` is any clock that does not go back."""
        lines = {f"{address} {' '.join(names)}" for address, names in entries if _is_shown(address)}
        for line in sorted(lines - self._shown.keys()):
            self._show(line.encode(), now)
        # New names are there before old ones go: a Service that moves is never without an address.
        for line in sorted(self._shown.keys() - lines - self._fixed):
            slot = self._shown.pop(line)
            os.pwrite(self._descriptor, HIDDEN, slot * SLOT)
            self._hidden[slot] = now + QUARANTINE

    def _show(self, line: bytes, now: float) -> None:
        if len(line) >= SLOT:
            return  # a label has at most 63 letters, a namespace too
        slot = next((slot for slot, free in sorted(self._hidden.items()) if free <= now), None)
        if slot is None:
            slot = self._append(HIDDEN + line[1:])
        else:
            del self._hidden[slot]
            os.pwrite(self._descriptor, _pad(HIDDEN + line[1:]), slot * SLOT)
        os.pwrite(self._descriptor, line[:1], slot * SLOT)
        self._shown[line.decode()] = slot

    def _append(self, line: bytes) -> int:
        slot = self._slots
        os.pwrite(self._descriptor, _pad(line), slot * SLOT)
        self._slots += 1
        return slot

    def _adopt(self) -> bool:
        """Learn the slots of a file of ours; False for anything else."""
        size = os.fstat(self._descriptor).st_size // SLOT * SLOT  # a torn last slot is written over
        content = os.pread(self._descriptor, size, 0)
        slots = [content[start : start + SLOT] for start in range(0, size, SLOT)]
        if any(slot[-1:] != b"\n" or b"\n" in slot[:-1] for slot in slots):
            return False
        self._slots = len(slots)
        for number, slot in enumerate(slots):
            if slot.startswith(HIDDEN):
                self._hidden[number] = float("-inf")
            else:
                self._shown[slot.decode().rstrip()] = number
        return True


def _is_shown(address: str) -> bool:
    return address[:1].isdecimal() or ":" in address


def _pad(line: bytes) -> bytes:
    return line.ljust(SLOT - 1) + b"\n"


def machine_lines(path: Path = Path("/etc/hosts")) -> tuple[str, ...]:
    """The machine's own lines, which Pods go on seeing, without comments; at least localhost."""
    try:
        lines = [" ".join(line.partition("#")[0].split()) for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError):
        lines = []
    entries = tuple(line for line in lines if line)
    return (
        entries if any("localhost" in line.split() for line in entries) else ("127.0.0.1 localhost", *entries)
    )
