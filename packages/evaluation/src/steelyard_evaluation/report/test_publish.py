"""Tests of the publication of reports and audits by attempts that are suspended, or killed, at any write."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.report.audit.make import Audit
from steelyard_evaluation.report.publish import make_publication, publish_audit, publish_report
from steelyard_evaluation.report.report import Report
from steelyard_evaluation.storage.files import FileStore

OWN = ".steelyard/"
Kind = Literal["report", "audit"]
PUBLISHED = {"report": 9, "audit": 8}
"""Number of writes of an attempt until it has published: its claim, its files, and the manifest."""
SUSPENDED = [
    *((kind, writes) for kind, files in PUBLISHED.items() for writes in range(files + 2 * (files - 2))),
]
"""Every write of an attempt: afterwards it copies each file to its place, and removes it."""


class Killed(BaseException):
    """End of the process."""


async def kill() -> None:
    raise Killed


class SuspendedStore(FileStore):
    """A store at which something happens after a number of writes, before the next one."""

    def __init__(self, root: Path, writes: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(root)
        self.writes, self.meanwhile = writes, meanwhile

    async def _count(self) -> None:
        self.writes -= 1
        if self.writes == -1:
            await self.meanwhile()

    async def put(self, key: str, data: bytes) -> None:
        await self._count()
        await super().put(key, data)

    async def create(self, key: str, data: bytes) -> None:
        await self._count()
        await super().create(key, data)

    async def put_file(self, key: str, path: Path) -> None:
        await self._count()
        await super().put_file(key, path)

    async def copy(self, source: str, target: str) -> None:
        await self._count()
        await super().copy(source, target)

    async def delete(self, key: str) -> None:
        await self._count()
        await super().delete(key)


async def attempt(
    kind: Kind, number: int, store: FileStore, scratch: Path, resource: str = "1795241700-11111111"
) -> None:
    """Publish as an attempt of a resource: all that it writes holds its number."""
    name = f"attempt {number}"
    file = scratch / f"{number}.txt"
    file.write_text(name)
    publication = make_publication(await claim(store, f"{resource}-{number:04d}"))
    if await publication.complete_earlier() is not None:
        return
    page = name.encode()
    if kind == "audit":
        numbers = orjson.dumps({"requirements": [], "baseline": None, "name": name})
        pages = {"reports/1/report.html": page, "reports/2/report.html": page}
        await publish_audit(Audit(page, numbers, {"scores/1.parquet": file}, name, pages), "a", publication)
    else:
        rows = {"missing": 0, "duplicates": 0, "errors": 0}
        scoring = {"rubrics": ["a"]}
        facts: Json = {"evidence": [], "scoring": scoring, "datasetView": None, "rows": rows, "more": []}
        numbers = orjson.dumps({"name": name, **facts})
        beside = {"rows/page-1.html": file, "scores-2.parquet": file, f"rubric-files/{number}.py": file}
        await publish_report(Report(page, numbers, file, name, 1, beside), "r", publication)


def contents(root: Path) -> dict[str, str]:
    files = {str(file.relative_to(root)): file for file in root.rglob("*") if file.is_file()}
    return {path: file.read_text() for path, file in files.items() if not path.startswith(OWN)}


def check_whole(kind: Kind, there: dict[str, str]) -> None:
    """Check that a page is there, and all files are of one attempt."""
    page = "index.html" if kind == "audit" else "report.html"
    del there["attestation.json"]
    assert page in there
    assert all(there[page] in content for content in there.values())


@pytest.mark.parametrize(("kind", "writes"), SUSPENDED)
async def test_an_attempt_that_is_suspended_changes_nothing_that_another_has_published(
    tmp_path: Path, kind: Kind, writes: int
) -> None:
    root = tmp_path / "output"
    published: list[dict[str, str]] = []

    async def publish_another() -> None:
        await attempt(kind, 2, FileStore(root), tmp_path)
        published.append(contents(root))

    with suppress(EvaluationFailed):
        await attempt(kind, 1, SuspendedStore(root, writes, publish_another), tmp_path)
    assert [contents(root)] == published
    check_whole(kind, contents(root))


@pytest.mark.parametrize(("kind", "writes"), SUSPENDED)
async def test_the_next_attempt_completes_what_a_killed_one_has_published(
    tmp_path: Path, kind: Kind, writes: int
) -> None:
    root = tmp_path / "output"
    with suppress(Killed):
        await attempt(kind, 1, SuspendedStore(root, writes, kill), tmp_path)
    there = contents(root)
    if "index.html" in there or "report.html" in there:
        check_whole(kind, there)
    await attempt(kind, 2, FileStore(root), tmp_path)
    check_whole(kind, contents(root))
    assert ("attempt 1" in contents(root).values()) is (writes >= PUBLISHED[kind])
    assert not [file for file in root.rglob("*") if file.is_file() and "attempts" in file.parts]


LATER = "1795241800-00000000"
"""Another resource, which was made later for the same output, by hand."""


@pytest.mark.parametrize("later_writes", [4, 12, 18])
@pytest.mark.parametrize(("kind", "writes"), SUSPENDED)
async def test_the_output_of_a_later_resource_at_the_same_place_is_whole(
    tmp_path: Path, kind: Kind, writes: int, later_writes: int
) -> None:
    """The attempt of the earlier one is suspended, goes on in the middle of the later one's, and ends before that."""
    root = tmp_path / "output"
    earlier_goes_on, earlier_waits = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        earlier_waits.set()
        await earlier_goes_on.wait()

    async def let_the_earlier_end() -> None:
        earlier_goes_on.set()
        with suppress(EvaluationFailed):
            await earlier

    earlier = asyncio.create_task(attempt(kind, 1, SuspendedStore(root, writes, wait), tmp_path))
    await earlier_waits.wait()
    later = attempt(kind, 2, SuspendedStore(root, later_writes, let_the_earlier_end), tmp_path, LATER)
    await later
    await let_the_earlier_end()
    there = contents(root)
    check_whole(kind, there)
    assert there["index.html" if kind == "audit" else "report.html"] == "attempt 2"
