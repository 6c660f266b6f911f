"""Both forms of the view keep to the contract."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard.views import contract, contract_sink
from steelyard.views.contract import Case
from steelyard.views.open import open_view
from steelyard.views.view import View, ViewError


@pytest.fixture(params=["memory", "sqlite"])
async def view(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[View]:
    opened = await open_view("memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'view.db'}")
    yield opened
    await opened.close()


CASES = {**contract.CASES, **contract_sink.CASES}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_view_keeps_to_the_contract(view: View, case: Case) -> None:
    await case(view)


@pytest.mark.parametrize("url", ["", "sqlite:", "memory:x", "view.db", "postgres://x"])
async def test_a_url_that_is_no_view_is_refused(url: str) -> None:
    with pytest.raises(ViewError, match="should be sqlite:PATH or memory:"):
        await open_view(url)


async def test_a_view_of_another_schema_may_be_deleted(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "view.db")) as early:
        early.executescript("CREATE TABLE entities (id TEXT); PRAGMA user_version = 1;")
    with pytest.raises(ViewError, match=r"lacks the table .*delete this file: the view is built anew"):
        await open_view(f"sqlite:{tmp_path / 'view.db'}")
