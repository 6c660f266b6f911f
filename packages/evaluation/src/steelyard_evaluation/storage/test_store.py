"""Stores of objects in folders and memory: the contract, and what only one of them can meet."""

import errno
import os
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import BaseError

from steelyard_evaluation.storage.contract import CASES, Case
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.objects import ObjectStore, credentials_fault, reason
from steelyard_evaluation.storage.store import (
    BadLocation,
    ObjectExists,
    ObjectMissing,
    StorageError,
    StorageFull,
    Store,
    display_name,
    open_store,
    probe,
    sync_reader,
)

names = count()


@pytest.fixture(params=["file", "memory", "memory below a prefix"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Each engine in turn."""
    if request.param == "file":
        return open_store(f"file://{tmp_path}/store")
    return open_store(f"memory://test-{next(names)}" + ("/a/b" if "prefix" in request.param else ""))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_store_keeps_to_the_contract(store: Store, case: Case) -> None:
    await case(store)


class Repeating(ObjectStore):
    """Store behind a network that loses the first answer of each write: the library sends it again."""

    async def _put_new(self, path: str, data: bytes, mark: str, end: float) -> None:
        await super()._put_new(path, data, mark, end)
        await super()._put_new(path, data, mark, end)


async def test_a_create_whose_answer_was_lost_is_the_writers_own(tmp_path: Path) -> None:
    store = Repeating(f"memory://test-{next(names)}")
    await store.create("a", b"")
    (tmp_path / "file").write_bytes(b"part")
    await store.create_file("b", tmp_path / "file")
    assert (await store.get("a"), await store.get("b")) == (b"", b"part")


async def test_of_two_who_create_the_same_one_is_refused_even_with_the_same_content() -> None:
    """A claim of an epoch is empty: its name is all that it says."""
    name = f"memory://test-{next(names)}"
    await Repeating(name).create("a", b"")
    with pytest.raises(ObjectExists):
        await Repeating(name).create("a", b"")


def test_a_servers_explanation_is_one_line() -> None:
    document = (
        '<?xml version="1.0"?>\n<Error><Code>SlowDown</Code><Message>Reduce your rate.</Message>'
        "<HostId>x</HostId></Error>"
    )
    error = BaseError(f"Generic S3 error: Server returned 503: {document}\n\nDebug source:\nGeneric {{\n}}")
    assert reason(error, "s3") == "Generic S3 error: Server returned 503: SlowDown: Reduce your rate."
    assert reason(BaseError("no answer\nin time"), "s3") == "no answer in time"


@pytest.mark.parametrize(
    ("scheme", "asked", "variable"),
    [
        ("s3", "PUT http://169.254.169.254/latest/api/token", "AWS_ACCESS_KEY_ID"),
        ("gs", "GET http://metadata.google.internal/computeMetadata/v1/instance", "GOOGLE_SERVICE_ACCOUNT"),
        ("az", "GET http://169.254.169.254/metadata/identity/oauth2/token", "AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_missing_credentials_are_named_as_the_store_calls_them(
    scheme: str, asked: str, variable: str
) -> None:
    error = BaseError(f"Error performing {asked} in 1 ms - 403 Forbidden")
    assert reason(error, scheme).startswith(f"no credentials: set {variable}")


@pytest.mark.parametrize(
    ("scheme", "environment"),
    [
        ("s3", {"AWS_ACCESS_KEY_ID": "a"}),
        ("s3", {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}),
        ("s3", {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}),
        ("gs", {"GOOGLE_APPLICATION_CREDENTIALS": "/key"}),
        ("az", {"AZURE_STORAGE_SAS_TOKEN": "x"}),
        ("az", {"IDENTITY_ENDPOINT": "http://x"}),
        ("memory", {}),
    ],
)
def test_credentials_of_any_kind_are_left_to_the_library(scheme: str, environment: dict[str, str]) -> None:
    def connect(host: str) -> None:
        raise AssertionError("the machine is asked only where nothing is given")

    assert credentials_fault(scheme, environment, connect) == ""


@pytest.mark.parametrize("scheme", ["s3", "az"])
def test_a_machine_without_rights_of_its_own_is_told_from_one_that_has_some(scheme: str) -> None:
    region = {"AWS_REGION": "eu", "AWS_ENDPOINT_URL": "http://s3", "AZURE_STORAGE_ACCOUNT_NAME": "a"}
    assert credentials_fault(scheme, region, lambda host: None) == ""

    def silent(host: str) -> None:
        raise TimeoutError("timed out")

    fault = credentials_fault(scheme, region, silent)
    assert fault.startswith("no credentials: set A")
    assert fault.endswith("nor has this machine rights of its own (169.254.169.254: timed out)")


def test_an_address_without_its_account_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        StorageError, match=r"^az://box/x: no storage account: set AZURE_STORAGE_ACCOUNT_NAME"
    ):
        open_store("az://box/x")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "a")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "x")
    with pytest.raises(
        StorageError, match=r"^az://box/x: Generic MicrosoftAzure error: Invalid Access Key[^\n]*$"
    ):
        open_store("az://box/x")


async def test_a_folder_is_no_object_and_an_object_no_folder(tmp_path: Path) -> None:
    """Object stores hold both at once; a folder cannot, and must not call it missing or there already."""
    store = FileStore(tmp_path / "store")
    await store.put("a", b"")
    await store.put("b/c", b"")
    for write in (store.put, store.create):
        for key in ("a/b", "b"):
            with pytest.raises(StorageError, match="folder") as refused:
                await write(key, b"")
            assert type(refused.value) is StorageError


async def test_parquet_is_read_through_a_seekable_reader(store: Store) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": list(range(1000))}), sink, row_group_size=100)
    await store.put("t.parquet", sink.getvalue().to_pybytes())
    with sync_reader(store, "t.parquet") as file, pq.ParquetFile(file) as parquet:
        assert sum(len(batch) for batch in parquet.iter_batches(50)) == 1000


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/y",
        "file://host/x",
        "file:x",
        "/plain/path",
        "file:///a/../b",
        "s3://bucket/a//b",
        "s3:/bucket",
        "gs://",
        "file:///a?b",
        "s3://a/b#c",
    ],
)
def test_a_url_that_is_none_of_ours_is_refused(url: str) -> None:
    with pytest.raises(BadLocation):
        open_store(url)


async def test_a_full_disk_is_said_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "store").mkdir()
    store = FileStore(tmp_path / "store")
    with pytest.raises(StorageFull, match="No space left"):
        await store.create("a", b"1")
    assert list((tmp_path / "store").iterdir()) == []


async def test_the_file_is_on_disk_before_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power loss: the content is synced first, then the name appears, then the folder is synced."""
    happened: list[str] = []
    real: Callable[[int], None] = os.fsync
    store = FileStore(tmp_path)

    def watched(descriptor: int) -> None:
        folder = os.path.isdir(f"/proc/self/fd/{descriptor}")
        happened.append(f"{'folder' if folder else 'file'} synced, named: {(tmp_path / 'a').exists()}")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    for write in (store.create, store.put):
        happened.clear()
        await store.delete("a")
        happened.clear()
        await write("a", b"1")
        assert happened == ["file synced, named: False", "folder synced, named: True"]


async def test_the_names_of_new_folders_are_on_disk_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power loss: a folder that is not synced into its parent would take the object with it, whichever process made
    it."""
    synced: list[str] = []
    real: Callable[[int], None] = os.fsync

    def watched(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            synced.append(path.relative_to(tmp_path).as_posix())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    store = FileStore(tmp_path / "root")
    await store.put("a/b/c", b"")
    assert synced == [".", "root", "root/a", "root/a/b"]
    synced.clear()
    await store.create("a/b/d", b"")
    assert synced == ["root/a/b"], "the folders are known to be on disk"
    (tmp_path / "root" / "made" / "by-another").mkdir(parents=True)
    synced.clear()
    await store.put("made/by-another/c", b"")
    assert synced == ["root", "root/made", "root/made/by-another"]


async def test_a_folder_that_went_away_is_made_again(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    await store.put("a/b/c", b"1")
    shutil.rmtree(tmp_path / "a")
    await store.put("a/b/c", b"2")
    assert await store.get("a/b/c") == b"2"


async def test_a_store_that_replaces_on_create_is_refused(tmp_path: Path) -> None:
    class Careless(FileStore):
        async def create(self, key: str, data: bytes) -> None:
            await self.put(key, data)

    with pytest.raises(StorageError, match="cannot be used"):
        await probe(Careless(tmp_path))


async def test_who_is_patient_waits_for_room(tmp_path: Path) -> None:
    waits: list[StorageFull] = []

    async def when_full(error: StorageFull) -> None:
        waits.append(error)
        if len(waits) == 3:
            raise error

    def full_twice(path: Path) -> str:
        if len(waits) < times:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return path.name

    times = 2
    assert await FileStore(tmp_path, when_full)._run("a", full_twice) == "a"
    assert [str(error) for error in waits] == [f"{tmp_path}/a: No space left on device"] * 2
    times = 9
    with pytest.raises(StorageFull):
        await FileStore(tmp_path, when_full)._run("a", full_twice)
    with pytest.raises(StorageFull):
        await FileStore(tmp_path)._run("a", full_twice)


@pytest.mark.parametrize(
    ("url", "key", "name"),
    [
        ("file:///data/run", "part-0.parquet", "/data/run/part-0.parquet"),
        ("file:///data/run", "", "/data/run"),
        ("s3://bucket/run", "part-0.parquet", "s3://bucket/run/part-0.parquet"),
    ],
)
def test_messages_name_files_by_their_paths(url: str, key: str, name: str) -> None:
    assert display_name(url, key) == name


async def test_a_missing_file_is_named_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(ObjectMissing, match=f"^{tmp_path}/a"):
        await FileStore(tmp_path).get("a")
