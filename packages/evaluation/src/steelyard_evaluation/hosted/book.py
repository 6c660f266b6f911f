"""The spending ledger in storage: a chain of numbered entries, each created once and never changed.

Create-only writes make the order: of two writers that have read the same entry, one creates the next, and the other
reads on. Every entry holds the whole ledger, so that the last one alone has to be read. Entries are kept: where one was
deleted, a writer that has been away could create it again.
"""

from pydantic import TypeAdapter, ValidationError

from steelyard_evaluation.hosted.ledger import Ledger
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, StorageError, Store
from steelyard_schema.faults import faults_text
from steelyard_schema.names import OWN_RECORDS

_FOLDER = f"{OWN_RECORDS}spending"
_LEDGER: TypeAdapter[Ledger] = TypeAdapter(Ledger)


class LedgerDamaged(StorageError):
    """An entry cannot be read, so the spending is not known."""


class Book:
    """The ledger below a prefix of an object store, as far as it has been read."""

    def __init__(self, store: Store, prefix: str = "") -> None:
        self._store = store
        self._prefix = prefix
        self.last: Ledger | None = None
        """The last entry that was read; None where there is none yet."""

    async def open(self) -> None:
        """Read the last entry. Raises StorageError, LedgerDamaged."""
        known, missing = (self.last.number if self.last else 0), 1
        # Entries have no gaps: doubled steps find a missing one, halved ones the last that is there.
        while await self._exists(known + missing):
            known, missing = known + missing, missing * 2
        missing += known
        while missing - known > 1:
            middle = (known + missing) // 2
            known, missing = (middle, missing) if await self._exists(middle) else (known, middle)
        if known:
            self.last = await self._read(known)
        await self.follow()

    async def follow(self) -> None:
        """Read the entries that others have created since. Raises StorageError, LedgerDamaged."""
        while True:
            number = self.last.number + 1 if self.last else 1
            try:
                self.last = await self._read(number)
            except ObjectMissing:
                return

    async def add(self, ledger: Ledger) -> bool:
        """Create the next entry; False where another one has been created in its place, which is read then.

        An entry whose fate an error left open may be added again.
        """
        try:
            await self._store.create(self._key(ledger.number), _LEDGER.dump_json(ledger))
        except ObjectExists:
            # It may be this one, created by a request whose answer was lost.
            self.last = await self._read(ledger.number)
            added = self.last == ledger
            await self.follow()
            return added
        self.last = ledger
        return True

    async def _exists(self, number: int) -> bool:
        try:
            await self._store.head(self._key(number))
        except ObjectMissing:
            return False
        return True

    async def _read(self, number: int) -> Ledger:
        key = self._key(number)
        try:
            ledger = _LEDGER.validate_json(await self._store.get(key))
        except ValidationError as error:
            raise LedgerDamaged(
                f"{self._store.url}: {key} is not an entry of a spending ledger: {faults_text(error)}"
            ) from error
        if ledger.number != number:
            raise LedgerDamaged(f"{self._store.url}: {key} is the entry of another number, {ledger.number}")
        return ledger

    def _key(self, number: int) -> str:
        key = f"{_FOLDER}/{number:012d}.json"
        return f"{self._prefix}/{key}" if self._prefix else key
