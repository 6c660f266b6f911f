"""The seal of a repository, and how requests that finalize an artifact agree on it with requests that push to it.

Finalizing closes the repository by `closed/<number>`, reads the pushed content, and decides by `decided/<number>`,
create-only: the decision is the seal, or it is empty, and then the repository is open again. A request that has
written something reads, as its last step, the decision of the latest closing; where there is none yet, it decides
itself that the repository stays open. So what it has written is in the seal, or in what the next closing reads, or
the request is refused; and a process that is killed or suspended between two of these steps keeps no other one
waiting.

A seal that was decided is kept as `sealed`, which readers of a finalized artifact read. No closing follows it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import orjson

from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store

_OPEN = b""
"""Decision that the repository stays open."""


@dataclass(frozen=True)
class Seal:
    """Content of an artifact as it was finalized."""

    tags: Mapping[str, str]
    """Digests by tags."""
    deleted: Sequence[str] = ()
    """Keys of the blobs and manifests that were deleted."""
    referrers: Sequence[str] | None = None
    """Referrers as `<hex of the subject>/<hex>`; None in a seal of an earlier version."""

    @classmethod
    def parse(cls, json: bytes) -> "Seal":
        content = orjson.loads(json)
        # Earlier versions wrote the tags alone, of which one may be called `tags`, too.
        is_whole = isinstance(content.get("tags"), Mapping)
        return (
            cls(content["tags"], content["deleted"], content.get("referrers")) if is_whole else cls(content)
        )

    def dump_json(self) -> bytes:
        referrers = {} if self.referrers is None else {"referrers": list(self.referrers)}
        return orjson.dumps({"tags": self.tags, "deleted": list(self.deleted), **referrers})


@dataclass(frozen=True)
class Sealing:
    """The closings of one repository, and their decisions."""

    store: Store
    folder: str

    async def read_seal(self) -> Seal | None:
        """Return the seal that is kept; None where there is none yet."""
        try:
            return Seal.parse(await self.store.get(self._seal_key))
        except ObjectMissing:
            return None

    async def settle(self) -> Seal | None:
        """Return the seal that counts for a request that has written something before; None if the repository is open.

        Every later closing reads everything written by then.
        """
        latest = await self._latest()
        # An earlier version of the platform may have sealed it without a closing.
        return await self._decide(latest, None) if latest else await self.read_seal()

    async def completed(self) -> bool:
        """Keep a seal that was decided and is not kept yet; return whether there is a seal."""
        if await self.read_seal() is not None:
            return True
        latest = await self._latest()
        decision = await self._decision(latest) if latest else _OPEN
        if not decision:
            return False
        await self._keep(decision)
        return True

    async def seal(self, content: Seal, content_now: Callable[[], Awaitable[Seal]]) -> bool:
        """Seal this content, unless it has changed before the repository is closed; return whether there is a seal."""
        latest = await self._latest()
        # The latest closing may be of a request that was cut short before it decided, or before it kept its seal.
        decision = await self._decision(latest) if latest else _OPEN
        if not decision:
            number = latest if decision is None else latest + 1
            with suppress(ObjectExists):
                await self.store.create(f"{self._closings}{number:06d}", b"")
            is_same = await content_now() == content
            if (seal := await self._decide(number, content if is_same else None)) is None:
                return False
            decision = seal.dump_json()
        await self._keep(decision)
        return True

    async def _keep(self, decision: bytes) -> None:
        with suppress(ObjectExists):
            await self.store.create(self._seal_key, decision)

    async def _latest(self) -> int:
        """Return the number of the latest closing; 0 where there is none."""
        numbers = [info.key.removeprefix(self._closings) async for info in self.store.list(self._closings)]
        return int(numbers[-1]) if numbers else 0

    async def _decide(self, number: int, seal: Seal | None) -> Seal | None:
        """Decide a closing, and return the decision: this one, or that of another request that came first."""
        decision = _OPEN if seal is None else seal.dump_json()
        try:
            await self.store.create(self._decision_key(number), decision)
        except ObjectExists:
            decision = await self.store.get(self._decision_key(number))
        return Seal.parse(decision) if decision else None

    async def _decision(self, number: int) -> bytes | None:
        try:
            return await self.store.get(self._decision_key(number))
        except ObjectMissing:
            return None

    def _decision_key(self, number: int) -> str:
        return f"{self.folder}/decided/{number:06d}"

    @property
    def _closings(self) -> str:
        return f"{self.folder}/closed/"

    @property
    def _seal_key(self) -> str:
        return f"{self.folder}/sealed"
