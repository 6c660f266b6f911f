"""A watch: the state at its begin where asked for, then each committed change, bookmarks, and its end."""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass

import orjson

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver import errors
from steelyard_local_kubernetes.apiserver.item import Item
from steelyard_local_kubernetes.apiserver.kinds import ResourceType
from steelyard_local_kubernetes.apiserver.ring import Change, VersionForgotten
from steelyard_local_kubernetes.apiserver.selection import Selects
from steelyard_local_kubernetes.apiserver.store import Store

BOOKMARK_SECONDS = 50.0
INITIAL_END = "k8s.io/initial-events-end"
PIECE = 64 << 10
"""Bytes of events from which on they are written before others are made."""
Render = Callable[[Item], bytes]


@dataclass(frozen=True)
class WatchOptions:
    version: str = ""
    seconds: float = 3600.0
    bookmarks: bool = False
    initial: bool | None = None  # sendInitialEvents, where given
    bookmark_seconds: float = BOOKMARK_SECONDS


@dataclass
class Watch:
    """One client's watch of one kind; `render` gives an item in the form that the client asked for."""

    store: Store
    kind: ResourceType
    selects: Selects
    render: Render
    options: WatchOptions
    monotonic: Callable[[], float]

    async def stream(self) -> AsyncGenerator[bytes, None]:
        ring = self.store.bucket(self.kind.bucket).ring
        version = int(self.options.version or 0)
        # An empty version and "0" mean "any": Kubernetes then begins with the objects that are there.
        initial = self.options.initial
        if not version and initial is False:
            version = self.store.version
        if self.options.version in ("", "0") if initial is None else initial:
            version = self.store.version
            items = [item for item in self.store.bucket(self.kind.bucket).items() if self.selects(item)]
            # Read first, then wait: what others write meanwhile may never be committed, and comes as an event if it is.
            await self.store.wait_durable()
            for piece in self._first_events(items, version, with_end=bool(initial)):
                yield piece
            # A watch may last for an hour, and must not keep all that was there at its beginning for so long.
            del items
        try:
            cursor = ring.cursor(version)
        except VersionForgotten:
            yield self._too_old(version)
            return
        now = self.monotonic()
        end = now + self.options.seconds
        bookmark_due = now + self.options.bookmark_seconds
        while True:
            try:
                changes, cursor = ring.read(cursor)
            except VersionForgotten:
                yield self._too_old(version)
                return
            sent, piece = False, b""
            for piece in pieces(map(self._event, changes)):
                yield piece
                sent = True
            # A bookmark moves a quiet watch on: without it the client's version grows old, and its next watch is
            # answered 410. Changes of others' objects, however many, tell it nothing.
            if not sent and self.options.bookmarks and now >= min(bookmark_due, end) and not ring.closed:
                yield self._bookmark(self.store.committed)
                sent = True
            if sent:
                bookmark_due = self.monotonic() + self.options.bookmark_seconds
            now = self.monotonic()
            left = end - now
            # A closed ring is read to its end first: the last changes, removals among them, still go out.
            if left <= 0 or (ring.closed and not changes):
                return
            # While a reader was busy with the events, others may have come: the wait would be for those after them.
            if not ring.goes_on(cursor):
                changes, piece = [], b""  # while it is quiet, the ring forgets them
                wait = min(left, bookmark_due - now) if self.options.bookmarks else left
                await ring.wait_for_change(wait)
                now = self.monotonic()

    def _first_events(self, items: list[Item], version: int, *, with_end: bool) -> Iterator[bytes]:
        """Yield the events of the objects that are there, and of their end where it is asked for.

        They are made as they are taken: for a watch that is read slowly, the objects alone are kept, the store's own.
        """
        yield from pieces(_frame(b"ADDED", self.render(item)) for item in items)
        if with_end:
            yield self._bookmark(version, initial_end=True)

    def _event(self, change: Change) -> bytes:
        """Return the event of a change as a watcher of selected objects sees it."""
        was = change.old is not None and self.selects(change.old)
        now = not change.removed and self.selects(change.new)
        if now:
            return _frame(b"MODIFIED" if was else b"ADDED", self.render(change.new))
        # Neither before nor now in the selection: for this watcher nothing has happened.
        if not was:
            return b""
        if change.removed:
            return _frame(b"DELETED", self.render(change.new))
        assert change.old is not None
        # The object lives on outside the selection. Clients get its old state
        # with the new version, from which they go on.
        return _frame(b"DELETED", self.render(_at_version(change.old, change.version)))

    def _bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        metadata: Json = {"resourceVersion": str(version)}
        if initial_end:
            metadata["annotations"] = {INITIAL_END: "true"}
        obj = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        return _frame(b"BOOKMARK", orjson.dumps(obj))

    def _too_old(self, version: int) -> bytes:
        text = f"too old resource version: {version} ({self.store.committed})"
        return _frame(b"ERROR", orjson.dumps(errors.resource_expired(text).status()))


def pieces(events: Iterable[bytes]) -> Iterator[bytes]:
    """Yield events together while they are small: one write for many, and no copy of all."""
    together: list[bytes] = []
    size = 0
    for event in events:
        together.append(event)
        size += len(event)
        if size >= PIECE:
            yield b"".join(together)
            together, size = [], 0
    if size:
        yield b"".join(together)


def _frame(event: bytes, obj: bytes) -> bytes:
    return b'{"type":"' + event + b'","object":' + obj + b"}\n"


def _at_version(item: Item, version: int) -> Item:
    """An object that left the selection, as it last was there, with the version at which it left."""
    obj = item.parse()
    obj["metadata"]["resourceVersion"] = str(version)
    return Item(
        orjson.dumps(obj),
        version,
        item.namespace,
        item.name,
        item.uid,
        item.labels,
        item.owners,
        item.deleting,
    )
