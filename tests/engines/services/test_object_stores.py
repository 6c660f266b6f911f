"""Stores on a server of S3, Google Cloud Storage or Azure: the contract of all stores, uploads that become final, and a
server that is killed. The environment chooses the kind: `object_stores.CHOSEN`.
"""

import asyncio
import os
import random
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings

from steelyard.api.settings import ApiSettings
from steelyard.local.config import check_engines
from steelyard.settings import load
from steelyard.testing.engines.store import CASES, Case
from steelyard_evaluation.hosted.book import Book
from steelyard_evaluation.hosted.ledger import CallTotals, Ledger, Tokens
from steelyard_evaluation.storage.staging import Area, ExpectedFile, discard, finalise
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, StorageError, Store, open_store
from steelyard_schema.names import MANIFEST
from tests.engines.services.histories import STORE_OPERATIONS, Operation, store_outcomes
from tests.engines.services.object_stores import chosen
from tests.engines.services.service import Service
from tests.integration.spending import check_killed_writers
from tests.integration.test_data_sources import check_killed_step
from tests.integration.test_platform_kills import SEED
from tests.platform_api.memory_platform import dataset, make_engines, make_platform

KIND = chosen()
AREA = Area("5eed", "nonce")
PART = b"x" * 3_000_000
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def store() -> Store:
    """An empty place in the bucket."""
    return open_store(f"{os.environ[KIND.variable]}/{secrets.token_hex(8)}/deep")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A server of the test's own, which it may kill."""
    with KIND.start() as service:
        for name, value in KIND.client_environment(service).items():
            monkeypatch.setenv(name, value)
        yield service


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_bucket_keeps_to_the_contract(store: Store, case: Case) -> None:
    await case(store)


@settings(deadline=None, max_examples=60)
@given(STORE_OPERATIONS)
def test_a_bucket_answers_as_a_folder_and_as_memory_do(operations: Sequence[Operation]) -> None:
    async def compare() -> None:
        name = secrets.token_hex(8)
        expected = await store_outcomes(open_store(f"memory://{name}"), operations)
        with tempfile.TemporaryDirectory() as folder:
            assert await store_outcomes(open_store(f"file://{folder}"), operations) == expected
        assert await store_outcomes(open_store(f"{os.environ[KIND.variable]}/{name}"), operations) == expected

    asyncio.run(compare())


async def test_writers_of_a_spending_ledger_are_in_one_order(store: Store) -> None:
    """Every call of every writer counts once, whoever was first."""
    writers, calls = 4, 15

    async def write(writer: str) -> None:
        book = Book(store)
        await book.open()
        for _ in range(calls):
            added = False
            while not added:
                last = book.last or Ledger(NOON.date())
                added = await book.add(last.after(writer, CallTotals(1, Tokens(1, 2)), Tokens(), NOON))

    await asyncio.gather(*(write(f"writer-{number}") for number in range(writers)))
    book = Book(store)
    await book.open()
    assert book.last
    assert book.last.number == book.last.total.calls == writers * calls
    assert set(book.last.holds) == {f"writer-{number}" for number in range(writers)}


async def test_whatever_killed_processes_have_spent_stands_in_the_ledger(store: Store) -> None:
    await check_killed_writers(store, random.Random(SEED))


def test_a_data_source_whose_step_is_killed_is_continued(store: Store, tmp_path: Path) -> None:
    check_killed_step(tmp_path, store.url)


async def test_an_upload_becomes_final(store: Store) -> None:
    files = {"a.parquet": PART, "deep/b.parquet": b"b"}
    for path, data in files.items():
        await store.put(AREA.key(path), data)
    expected = [ExpectedFile(path, len(data)) for path, data in files.items()]
    manifest = await finalise(store, AREA, expected, "datasets/5eed")
    await discard(store, AREA)
    assert [file.path for file in manifest.files] == list(files)
    assert [info.key async for info in store.list()] == [
        *(f"datasets/5eed/{key}" for key in sorted([*files, MANIFEST])),
        AREA.closing_mark,
    ]
    assert await store.get("datasets/5eed/a.parquet") == PART


async def test_a_check_says_what_a_bucket_can(store: Store, tmp_path: Path) -> None:
    platform = load(None, tmp_path).model_copy(update={"storage": store.url})
    seen = {check.engine: check async for check in check_engines(platform)}["storage"]
    assert (seen.address, seen.fault) == (store.url, "")
    assert seen.facts[:2] == ("writes, copies, lists and removes", "creates once")
    assert [info async for info in store.list()] == []


async def test_a_check_tries_the_buckets_own_urls(store: Store, tmp_path: Path) -> None:
    platform = load(None, tmp_path).model_copy(
        update={"storage": store.url, "api": ApiSettings(signed_urls="store")}
    )
    seen = {check.engine: check async for check in check_engines(platform)}["storage"]
    if KIND.urls_copy:
        assert "its signed URLs copy what their holders may not read" in seen.fault
    else:
        assert (seen.fault, seen.facts[-1]) == ("", "signs URLs for one object and method")
    assert [info async for info in store.list()] == []


async def test_files_go_past_the_api(store: Store) -> None:
    """A dataset from its request to its download, by the bucket's own URLs."""
    engines = await make_engines()
    engines.store = store
    engines.clock.now = datetime.now(UTC)
    settings = ApiSettings(signed_urls="store")
    files = {"a/b.parquet": PART, "c.parquet": b""}
    async with make_platform(engines, settings=settings) as platform, httpx.AsyncClient() as client:
        made = await platform.created("datasets", **dataset(files))
        path = f"/datasets/{made['id']}"
        links = {}
        for name, data in files.items():
            links[name] = link = (await platform.admin.get(f"{path}/upload/{name}")).json()
            assert "/v0/objects/" not in link["url"]
            wrong = await client.put(link["url"], content=b"wrong", headers=link["headers"])
            assert wrong.status_code == 400, "its MD5 is not the one that was announced"
            assert (await client.put(link["url"], content=data, headers=link["headers"])).is_success
        assert (await platform.admin.post(f"{path}/finalize")).status_code == 200
        late = links["c.parquet"]
        assert (await client.put(late["url"], content=b"", headers=late["headers"])).is_success
        for link in (await platform.admin.get(f"{path}/downlinks")).json():
            signed = link["signedURL"]
            got = await client.get(signed["url"], headers=signed["headers"])
            assert got.content == files[link["artifact"]["path"]]
            assert "/v0/objects/" not in signed["url"]


async def test_of_two_processes_that_create_the_same_object_one_does(store: Store) -> None:
    other = open_store(store.url)
    for number in range(20):
        outcomes = await asyncio.gather(
            store.create(f"{number}", b"one"), other.create(f"{number}", b"two"), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes if outcome is not None] == [ObjectExists]


async def test_what_was_confirmed_survives_a_kill_and_nothing_is_half_there(
    service: Service, tmp_path: Path
) -> None:
    store = open_store(KIND.url)
    await store.create("confirmed", b"first")
    await asyncio.to_thread(KIND.wait_until_kept, service, "confirmed")
    (tmp_path / "part").write_bytes(PART)
    writes = [asyncio.create_task(store.put_file(f"part-{number}", tmp_path / "part")) for number in range(8)]
    await writes[0]
    await asyncio.to_thread(service.kill)
    confirmed = {number for number, write in enumerate(writes) if write.done() and not write.exception()}
    await asyncio.to_thread(service.start)
    # The library tries again while the server is away, so that a write may end well or with an error.
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert await store.get("confirmed") == b"first"
    for number, outcome in enumerate(outcomes):
        try:
            content = await store.get(f"part-{number}")
        except ObjectMissing:
            lost = not KIND.keeps_at_once and number in confirmed
            assert lost or isinstance(outcome, StorageError), f"part-{number} was confirmed"
        else:
            assert content == PART


async def test_servers_run_side_by_side(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with KIND.start() as other:
        assert other.address != service.address
        await open_store(KIND.url).put("here", b"")
        for name, value in KIND.client_environment(other).items():
            monkeypatch.setenv(name, value)
        assert [info.key async for info in open_store(KIND.url).list()] == []


async def test_a_wrong_credential_is_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*KIND.wrong(service))
    with pytest.raises(StorageError, match=rf"^{KIND.url}/a: .*{KIND.refusal}: [^<\n]*$"):
        await open_store(KIND.url).get("a")
