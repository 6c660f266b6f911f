"""Tests of ranks among the writers of one output."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard_evaluation.engine.epoch import claim, claim_verification
from steelyard_evaluation.engine.errors import Fenced
from steelyard_evaluation.storage.files import FileStore
from steelyard_schema.steps import epoch, epoch_again

FIRST, SECOND = (epoch(datetime(2026, 1, 1, tzinfo=UTC), "0123456789", attempt) for attempt in (1, 2))


async def test_an_attempt_that_begins_again_outranks_its_beginnings_and_no_later_attempt(
    tmp_path: Path,
) -> None:
    store = FileStore(tmp_path)
    begun = await claim(store, epoch_again(FIRST, 0))
    again = await claim(store, epoch_again(FIRST, 1))
    with pytest.raises(Fenced):
        await begun.check()
    later = await claim(store, SECOND)
    with pytest.raises(Fenced):
        await again.check()
    await later.check()
    with pytest.raises(Fenced):
        await claim(store, epoch_again(FIRST, 2))


async def test_a_verification_that_begins_again_goes_on(tmp_path: Path) -> None:
    """The verification's own claim is there already."""
    store = FileStore(tmp_path)
    await claim(store, epoch_again(FIRST, 3))
    await claim_verification(store, FIRST)
    again = await claim_verification(store, epoch_again(FIRST, 1))
    await again.check()
    later = await claim_verification(store, SECOND)
    with pytest.raises(Fenced):
        await again.check()
    await later.check()
