"""Stores on a real S3 server: the contract of all stores, uploads that become final, and a server that is killed."""

import asyncio
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings

from steelyard.schema.names import MANIFEST
from steelyard.storage.staging import Area, Expected, discard, finalise
from steelyard.storage.store import ObjectExists, ObjectMissing, StorageError, Store, open_store
from steelyard.testing.engines.store import CASES, Case
from tests.engines.services.histories import STORE_OPERATIONS, Operation, store_outcomes
from tests.engines.services.s3 import client_environment, s3
from tests.engines.services.service import Service
from tests.engines.services.suite import S3

AREA = Area("5eed", "nonce")
PART = b"x" * 3_000_000


@pytest.fixture
def store() -> Store:
    """An empty place in the bucket."""
    return open_store(f"{os.environ[S3]}/{secrets.token_hex(8)}/deep")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A server of the test's own, which it may kill."""
    with s3() as service:
        for name, value in client_environment(service).items():
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
        assert await store_outcomes(open_store(f"{os.environ[S3]}/{name}"), operations) == expected

    asyncio.run(compare())


async def test_an_upload_becomes_final(store: Store) -> None:
    files = {"a.parquet": PART, "deep/b.parquet": b"b"}
    for path, data in files.items():
        await store.put(AREA.key(path), data)
    expected = [Expected(path, len(data)) for path, data in files.items()]
    manifest = await finalise(store, AREA, expected, "datasets/5eed")
    await discard(store, AREA)
    assert [file.path for file in manifest.files] == list(files)
    assert [info.key async for info in store.list()] == [
        *(f"datasets/5eed/{key}" for key in sorted([*files, MANIFEST])),
        AREA.closed,
    ]
    assert await store.get("datasets/5eed/a.parquet") == PART


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
    store = open_store("s3://steelyard")
    await store.create("confirmed", b"first")
    (tmp_path / "part").write_bytes(PART)
    writes = [asyncio.create_task(store.put_file(f"part-{number}", tmp_path / "part")) for number in range(8)]
    await writes[0]
    await asyncio.to_thread(service.kill)
    await asyncio.to_thread(service.start)
    # The library tries again while the server is away, so that a write may end well or with an error.
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert await store.get("confirmed") == b"first"
    for number, outcome in enumerate(outcomes):
        try:
            content = await store.get(f"part-{number}")
        except ObjectMissing:
            assert isinstance(outcome, StorageError), f"part-{number} was confirmed"
        else:
            assert content == PART


async def test_servers_run_side_by_side(service: Service, store: Store) -> None:
    with s3() as other:
        assert other.address != service.address
        await open_store("s3://steelyard").put("here", b"")
        os.environ["AWS_ENDPOINT_URL"] = other.address  # the fixture restores it
        assert [info.key async for info in open_store("s3://steelyard").list()] == []


async def test_a_wrong_credential_is_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(
        StorageError, match=r"^s3://steelyard/a: .*403 Forbidden: SignatureDoesNotMatch: [^<\n]*$"
    ):
        await open_store("s3://steelyard").get("a")
