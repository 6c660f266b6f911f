"""Fencing: of several writers of one output, the one with the highest epoch goes on and the others end themselves.

A claim is a create-only object; nothing is ever locked. `Epoch.check` stands before each part.
"""

from dataclasses import dataclass

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.errors import Fenced
from steelyard_evaluation.storage.store import ObjectExists, Store

_VERIFY = "-verify-"
"""A longer name sorts after its beginning, and a later client's epoch differs before this."""


@dataclass(frozen=True)
class Epoch:
    """A claimed epoch of the output in `store`."""

    store: Store
    name: str

    async def check(self) -> None:
        """Fenced when a higher epoch has been claimed."""
        highest = await highest_epoch(self.store)
        if highest is not None and highest > self.name:
            raise Fenced(self.name, highest)


async def claim(store: Store, name: str) -> Epoch:
    """Claim the epoch `name`: Fenced when it is taken, or when there is a higher one."""
    # Checked before and after the claim: two attempts that claim at once both pass the first check, and the lower one
    # sees the higher one in the second.
    epoch = Epoch(store, name)
    await epoch.check()
    try:
        await store.create(layout.EPOCHS + name, b"")
    except ObjectExists:
        raise Fenced(name, name) from None
    await epoch.check()
    return epoch


async def claim_verification(store: Store, name: str) -> Epoch:
    """Claim the output for a verification: it outranks every client so far, and an earlier verification.

    (A verification's own attempt number cannot be compared with a client's: both count from 1.)
    """
    highest = await highest_epoch(store)
    # An epoch that is built upon an earlier verification's would grow with each repetition, and outrank a
    # later client.
    client = "" if highest is None else highest.partition(_VERIFY)[0]
    return await claim(store, f"{client}{_VERIFY}{name}")


async def highest_epoch(store: Store) -> str | None:
    """The highest epoch that has been claimed."""
    names = [info.key.removeprefix(layout.EPOCHS) async for info in store.list(layout.EPOCHS)]
    return max(names, default=None)
