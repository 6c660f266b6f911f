"""Behaviour of every object store. Engines run each of `CASES`; keys are new in every case."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path

import httpx

from steelyard_evaluation.storage.staging import Area, ExpectedFile, discard, finalise
from steelyard_evaluation.storage.store import (
    BadLocation,
    ObjectExists,
    ObjectMissing,
    StorageError,
    Store,
    probe,
    sync_reader,
)

HOUR = timedelta(hours=1)
Case = Callable[[Store], Awaitable[None]]
OUTSIDE = ("../a", "a/../b", "a//b", "./a", "", "a/", "/a", "a%2e%2e/b", "a\\b")
"""Keys that would leave the store's root, or name one object in two ways."""


async def _refusal(call: Awaitable[object], kind: type[StorageError]) -> str:
    """Return the message of the error that a call must raise."""
    try:
        await call
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


async def an_object_is_read_whole_and_in_ranges(store: Store) -> None:
    await store.put("a/b.txt", b"0123456789")
    assert await store.get("a/b.txt") == b"0123456789"
    assert await store.get_range("a/b.txt", 8, 10) == b"89"
    assert await store.get_range("a/b.txt", 10, 1) == b""
    assert (await store.head("a/b.txt")).size == 10


async def put_replaces(store: Store) -> None:
    await store.put("a", b"1")
    await store.put("a", b"2")
    assert await store.get("a") == b"2"


async def create_never_replaces(store: Store) -> None:
    await store.create("a", b"first")
    await _refusal(store.create("a", b"second"), ObjectExists)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "file").write_bytes(b"third")
        await _refusal(store.create_file("a", Path(folder) / "file"), ObjectExists)
    assert await store.get("a") == b"first"
    await probe(store)


async def a_missing_object_is_named(store: Store) -> None:
    with tempfile.TemporaryDirectory() as folder:
        calls = (
            store.get("no/where"),
            store.head("no/where"),
            store.download("no/where", Path(folder) / "x"),
        )
        for call in calls:
            assert "no/where" in await _refusal(call, ObjectMissing)
    try:
        sync_reader(store, "no/where")
    except ObjectMissing:
        pass
    else:
        raise AssertionError("no ObjectMissing")
    await store.delete("no/where")


async def listing_is_recursive_sorted_and_below_its_prefix(store: Store) -> None:
    for key in ("b/2", "a/1", "b/1/x", "bb"):
        await store.put(key, b"")
    assert [info.key async for info in store.list()] == ["a/1", "b/1/x", "b/2", "bb"]
    assert [info.key async for info in store.list("b/")] == ["b/1/x", "b/2"]
    assert [info.key async for info in store.list("b")] == ["b/1/x", "b/2", "bb"]
    await store.delete("b/2")
    assert [info.key async for info in store.list("b/")] == ["b/1/x"]


async def a_copy_is_whole_and_apart_from_its_source(store: Store) -> None:
    await store.put("a/source", b"first")
    await store.put("b/target", b"to be replaced")
    await store.copy("a/source", "b/target")
    await store.copy("a/source", "c/d/new")
    await store.put("a/source", b"second")
    await store.put("c/d/new", b"third")
    assert [await store.get(key) for key in ("a/source", "b/target", "c/d/new")] == [
        b"second",
        b"first",
        b"third",
    ]
    await store.delete("a/source")
    assert await store.get("b/target") == b"first"
    assert "a/source" in await _refusal(store.copy("a/source", "e"), ObjectMissing)
    await _refusal(store.copy("b/target", "../e"), BadLocation)
    await _refusal(store.copy("../e", "b/target"), BadLocation)
    assert [info.key async for info in store.list()] == ["b/target", "c/d/new"]


async def a_listing_of_any_length_is_in_the_order_of_bytes(store: Store) -> None:
    names = ["a", "a!", "a-b", "a.b", "a0", "b", "é", "z", "～", "😀"]
    keys = [f"{name}/{name}x/{number}" for name in names for number in range(120)]
    keys += [f"{name}.txt" for name in names]
    for start in range(0, len(keys), 100):
        await asyncio.gather(*(store.put(key, b"") for key in keys[start : start + 100]))
    assert [info.key async for info in store.list()] == sorted(keys, key=str.encode)
    assert [info.key async for info in store.list("a/")] == sorted(key for key in keys if key[:2] == "a/")


async def one_of_many_writers_of_a_key_wins(store: Store) -> None:
    async def write(key: str, number: int) -> bool:
        try:
            await store.create(key, str(number).encode())
        except ObjectExists:
            return False
        return True

    for key in map(str, range(30)):  # which writer is first is chance, so several rounds are needed
        won = await asyncio.gather(*(write(key, number) for number in range(20)))
        assert won.count(True) == 1
        assert await store.get(key) == str(won.index(True)).encode()


async def files_go_in_and_out(store: Store) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").write_bytes(b"x" * 3_000_000)
        await store.put_file("big", folder / "in")
        await store.create_file("again", folder / "in")
        await store.download("big", folder / "out")
        assert (folder / "out").read_bytes() == (folder / "in").read_bytes()


async def a_key_outside_the_store_is_refused(store: Store) -> None:
    for key in OUTSIDE:
        for call in (store.get, store.head, store.delete):
            await _refusal(call(key), BadLocation)
        await _refusal(store.put(key, b""), BadLocation)


async def _check_refused(
    client: httpx.AsyncClient, method: str, url: str, headers: Mapping[str, str]
) -> None:
    """Send a request that its signature does not permit."""
    content = b"other" if method == "PUT" else None
    answer = await client.request(method, url, content=content, headers=headers)
    assert answer.status_code in {400, 401, 403}, f"{method} {url}: {answer.status_code}"


async def a_signed_url_opens_one_object_for_one_method(store: Store) -> None:
    await store.put("datasets/final", b"final")
    await _refusal(store.sign("PUT", "datasets/final", HOUR), BadLocation)
    await _refusal(store.sign("GET", "../datasets", HOUR), BadLocation)
    write = await store.sign("PUT", "staging/a/b.c", HOUR)
    if write is None:
        return  # it signs none, and the API signs instead
    async with httpx.AsyncClient() as client:
        answer = await client.put(write.url, content=b"first", headers=write.headers)
        assert answer.is_success, answer.text
        wrong = {**write.headers, "content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
        assert (await client.put(write.url, content=b"other", headers=wrong)).status_code == 400
        for method, url in (
            ("GET", write.url),
            ("DELETE", write.url),
            ("PUT", write.url.replace("staging/a/b.c", "staging/a/b.d")),
            ("PUT", write.url.replace("staging/a/b.c", "datasets/final")),
        ):
            await _check_refused(client, method, url, write.headers)
        read = await store.sign("GET", "staging/a/b.c", HOUR)
        assert read is not None
        answer = await client.get(read.url, headers=read.headers)
        assert (answer.status_code, answer.content) == (200, b"first")
        for method, url in (
            ("PUT", read.url),
            ("DELETE", read.url),
            ("GET", read.url.replace("staging/a/b.c", "datasets/final")),
        ):
            await _check_refused(client, method, url, write.headers)
    assert [info.key async for info in store.list()] == ["datasets/final", "staging/a/b.c"]
    assert await store.get("datasets/final") == b"final"


async def a_signed_url_expires(store: Store) -> None:
    await store.put("staging/a/b.c", b"first")
    read = await store.sign("GET", "staging/a/b.c", timedelta(seconds=1))
    if read is None:
        return
    async with httpx.AsyncClient() as client, asyncio.timeout(30):
        while (await client.get(read.url, headers=read.headers)).is_success:  # noqa: ASYNC110 - the store tells nobody
            await asyncio.sleep(0.1)


async def a_late_write_changes_nothing_that_is_final(store: Store) -> None:
    """A signature cannot be taken back: it writes until it expires, also after the upload was finalised."""
    area = Area("5eed", "nonce")
    write = await store.sign("PUT", area.key("b.c"), HOUR)

    async def upload(data: bytes) -> None:
        if write is None:
            await store.put(area.key("b.c"), data)
            return
        async with httpx.AsyncClient() as client:
            assert (await client.put(write.url, content=data, headers=write.headers)).is_success

    await upload(b"first")
    manifest = await finalise(store, area, [ExpectedFile("b.c")], "datasets/5eed")
    await upload(b"late")
    assert await finalise(store, area, [ExpectedFile("b.c")], "datasets/5eed") == manifest
    await discard(store, area)
    await upload(b"later")
    assert await finalise(store, area, [ExpectedFile("b.c")], "datasets/5eed") == manifest
    assert await store.get("datasets/5eed/b.c") == b"first"
    assert await store.get(area.key("b.c")) == b"later", "a leftover, which the reaper removes"


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        an_object_is_read_whole_and_in_ranges,
        put_replaces,
        create_never_replaces,
        a_missing_object_is_named,
        listing_is_recursive_sorted_and_below_its_prefix,
        a_listing_of_any_length_is_in_the_order_of_bytes,
        a_copy_is_whole_and_apart_from_its_source,
        one_of_many_writers_of_a_key_wins,
        files_go_in_and_out,
        a_key_outside_the_store_is_refused,
        a_signed_url_opens_one_object_for_one_method,
        a_signed_url_expires,
        a_late_write_changes_nothing_that_is_final,
    )
}
