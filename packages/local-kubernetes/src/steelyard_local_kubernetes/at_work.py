"""Objects that the Kubernetes process works on, in a file that outlives it: who ends it twice is set aside.

A mark is written before work on an object begins and removed after it, in memory that the kernel keeps when the
process is killed. At its start the process finds the marks that the last one left. An object that was at work when
two processes in a row died is not worked on any more, until somebody releases it (ADR 31).
"""

import asyncio
import json
import logging
import mmap
import struct
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard_common.durable import write_atomically
from steelyard_common.types import Json
from steelyard_kube.objects import read_annotations
from steelyard_kube.resource import Resource

RELEASE = "steelyard.io/release"
"""Annotation of an object that was set aside: with another value of it the object is worked on again."""
SET_ASIDE = "SetAside"
DEATHS = 2
"""Number of processes in a row that have to die with an object at work."""
SLOTS, SLOT_BYTES = 64, 1024
_LENGTH = struct.Struct("<H")
_log = logging.getLogger(__name__)


class SetAside(Exception):
    """The object has ended the process before, and is not worked on."""


@dataclass(frozen=True)
class Mark:
    """An object, as it was when it was worked on: by its uid, and by what its users have said of its release."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    release: str

    @classmethod
    def from_object(cls, resource: Resource, obj: Json) -> "Mark":
        metadata = obj["metadata"]
        return cls(
            resource.api_version,
            resource.kind,
            str(metadata.get("namespace") or ""),
            str(metadata.get("name") or ""),
            str(metadata.get("uid") or ""),
            str(read_annotations(obj).get(RELEASE) or "")[:100],
        )

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"

    @property
    def message(self) -> str:
        """Sentence for events, conditions and the screen, which says how to release the object."""
        options = f" -n {self.namespace}" if self.namespace else ""
        return (
            f"{self} is set aside: the Kubernetes process died {DEATHS} times while it worked on it. Delete it, or"
            f" release it: kubectl{options} annotate --overwrite {self.kind.lower()} {self.name}"
            f' {RELEASE}="$(date)"'
        )


class AtWork:
    """The marks of one process. Without a path nothing is marked, and nothing is set aside."""

    def __init__(self, path: Path | None = None) -> None:
        self._suspects: dict[Mark, int] = {}  # deaths in a row
        self.set_aside: set[Mark] = set()
        self._lock, self._alone, self._turn = threading.Lock(), threading.Lock(), asyncio.Lock()
        self._free: list[int] = []
        self._memory: mmap.mmap | None = None
        self._record = path.with_suffix(".json") if path else None
        if path is None:
            return
        try:
            left = self._open(path)
        except OSError as error:
            # Marks are a help, and no reason not to start.
            _log.warning("%s cannot be written, so nothing is marked: %s", path, error.strerror)
            left = []
        try:
            self._judge(_read_record(path.with_suffix(".json")), left)
        except (LookupError, TypeError, ValueError, AttributeError):
            _log.warning("%s cannot be read: nothing is set aside", path.with_suffix(".json"))

    def _open(self, path: Path) -> list[Mark]:
        """Map the file; return the marks that the last process has left in it."""
        with path.open("a+b") as file:
            file.truncate(SLOTS * SLOT_BYTES)
            self._memory = memory = mmap.mmap(file.fileno(), SLOTS * SLOT_BYTES)
        path.chmod(0o600)
        left = _read_marks(memory)
        memory[:] = bytes(len(memory))
        self._free = list(range(SLOTS))
        return left

    def _judge(self, record: Mapping[str, Any], left: list[Mark]) -> None:
        before = {_mark(row): int(row["deaths"]) for row in record.get("suspects", ())}
        self.set_aside = {_mark(row) for row in record.get("set_aside", ())}
        # In a row: one that was not at work this time has not ended the process.
        deaths = {mark: before.get(mark, 0) + 1 for mark in left}
        self.set_aside |= {mark for mark, number in deaths.items() if number >= DEATHS}
        self._suspects = {mark: number for mark, number in deaths.items() if number < DEATHS}
        for mark in self.set_aside:
            _log.error("%s", mark.message)
        self._write()

    def _write(self) -> None:
        if self._record is not None:
            suspects = [{**vars(mark), "deaths": number} for mark, number in self._suspects.items()]
            record = {"suspects": suspects, "set_aside": [vars(mark) for mark in self.set_aside]}
            # A full disk must not end a process for the sake of its marks.
            with suppress(OSError):
                write_atomically(self._record, json.dumps(record))

    @contextmanager
    def on(self, resource: Resource, obj: Json) -> Iterator[None]:
        """Mark an object while a thread works on it. Raises SetAside.

        Objects that were at work when the last process died are worked on one at a time: of two, only one can have
        ended the next process.
        """
        if self._memory is None:
            yield
            return
        mark = self._mark_for(resource, obj)
        with self._alone if mark in self._suspects else nullcontext(), self._hold_mark(mark):
            yield
        self._acquit(mark)

    @asynccontextmanager
    async def around(self, resource: Resource, obj: Json) -> AsyncIterator[None]:
        """Mark an object while a task works on it, as `on` does. Raises SetAside."""
        if self._memory is None:
            yield
            return
        mark = self._mark_for(resource, obj)
        async with self._turn if mark in self._suspects else nullcontext():
            with self._hold_mark(mark):
                yield
        self._acquit(mark)

    def _mark_for(self, resource: Resource, obj: Json) -> Mark:
        mark = Mark.from_object(resource, obj)
        if mark in self.set_aside:
            raise SetAside(mark.message)
        return mark

    @contextmanager
    def _hold_mark(self, mark: Mark) -> Iterator[None]:
        content = json.dumps(list(vars(mark).values())).encode()
        with self._lock:
            # More at work than there are slots, or names of a strange length: those go unmarked.
            fits = self._free and len(content) <= SLOT_BYTES - _LENGTH.size
            slot = self._free.pop() if fits else None
        if slot is None or self._memory is None:
            yield
            return
        start = slot * SLOT_BYTES
        self._memory[start + _LENGTH.size : start + _LENGTH.size + len(content)] = content
        _LENGTH.pack_into(self._memory, start, len(content))
        try:
            yield
        finally:
            self._memory[start : start + SLOT_BYTES] = bytes(SLOT_BYTES)
            with self._lock:
                self._free.append(slot)

    def _acquit(self, mark: Mark) -> None:
        if self._suspects.pop(mark, None) is not None:
            self._write()

    def release(self, mark: Mark) -> None:
        """Forget that an object was set aside: it is gone, or its users want it to be worked on."""
        self.set_aside.discard(mark)
        self._write()


def set_aside_in(path: Path) -> list[Mark]:
    """Return what the process of these marks has set aside, for who starts it."""
    with suppress(LookupError, TypeError, AttributeError):
        return [_mark(row) for row in _read_record(path.with_suffix(".json")).get("set_aside", ())]
    return []


def _read_marks(memory: mmap.mmap) -> list[Mark]:
    marks = []
    for start in range(0, SLOTS * SLOT_BYTES, SLOT_BYTES):
        (length,) = _LENGTH.unpack_from(memory, start)
        if 0 < length <= SLOT_BYTES - _LENGTH.size:
            with suppress(ValueError, TypeError):  # half a mark is none
                values = json.loads(memory[start + _LENGTH.size : start + _LENGTH.size + length])
                marks.append(Mark(*map(str, values)))
    return marks


def _read_record(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _mark(row: Mapping[str, Any]) -> Mark:
    return Mark(**{name: str(row[name]) for name in Mark.__dataclass_fields__})
