"""Every view keeps to the contract; any other file is put aside."""

import contextlib
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard.sqlite import Database
from steelyard.testing.engines import view as view_suite
from steelyard.testing.engines import view_sink
from steelyard.views.open import open_view
from steelyard.views.sqlite.tables import MIGRATIONS
from steelyard.views.view import View, ViewError


@pytest.fixture(params=["memory", "sqlite"])
async def view(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[View]:
    opened = await open_view("memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'view.db'}")
    yield opened
    await opened.close()


CASES = {**view_suite.CASES, **view_sink.CASES}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_view_keeps_to_the_contract(view: View, case: view_suite.Case) -> None:
    await case(view)


@pytest.mark.parametrize("url", ["", "sqlite:", "memory:x", "view.db", "postgres://x"])
async def test_a_url_that_is_no_view_is_refused(url: str) -> None:
    with pytest.raises(ViewError, match="should be sqlite:PATH, mongodb://HOST/DATABASE or memory:"):
        await open_view(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (
            "mongodb://user:secret@host:port/d",
            r"^view 'mongodb://user:\*\*\*@host:port/d': .*should be mongodb://",
        ),
        ("mongodb://user:secret@host", r"^view 'mongodb://user:\*\*\*@host': No default database"),
        ("mongdb://user:secret@host/d", r"^view: 'mongdb://user:\*\*\*@host/d' should be sqlite:PATH"),
    ],
)
async def test_an_address_that_cannot_be_mongodb_is_one_line_and_shows_no_password(
    url: str, why: str
) -> None:
    with pytest.raises(ViewError, match=why) as error:
        await open_view(url)
    assert "secret" not in str(error.value)


async def test_the_extra_of_mongodb_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("steelyard.views.mongodb.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pymongo", None)
    with pytest.raises(ViewError, match=r"needs pymongo: pip install 'steelyard\[mongodb\]'"):
        await open_view("mongodb://db/steelyard")


def put_aside(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.glob("view.db.aside-*")]


@pytest.mark.parametrize("how", ["other tables", "cut off", "no database"])
async def test_a_file_that_is_no_view_is_put_aside_and_a_view_made(tmp_path: Path, how: str) -> None:
    path = tmp_path / "view.db"
    with contextlib.closing(sqlite3.connect(path)) as early:
        early.executescript("CREATE TABLE entities (id TEXT); PRAGMA user_version = 1;")
    content = {
        "other tables": path.read_bytes(),
        "cut off": path.read_bytes()[:5000],
        "no database": b"x" * 999,
    }
    path.write_bytes(content[how])
    opened = await open_view(f"sqlite:{path}")
    assert await opened.origin() is None
    await opened.close()
    (aside,) = put_aside(tmp_path)
    assert len(aside) >= len(content[how])
    again = await open_view(f"sqlite:{path}")
    await again.close()
    assert len(put_aside(tmp_path)) == 1


async def test_a_view_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    await (await Database.open(tmp_path / "view.db", [*MIGRATIONS, "CREATE TABLE more (n);"])).close()
    with pytest.raises(ViewError, match="which is newer than"):
        await open_view(f"sqlite:{tmp_path / 'view.db'}")
