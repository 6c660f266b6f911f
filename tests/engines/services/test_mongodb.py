"""The view on a server of MongoDB's protocol: the contract of all views, several sinks, and a server that is killed."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.uri_parser import parse_uri

from steelyard.testing.engines import view as view_suite
from steelyard.testing.engines import view_sink
from steelyard.testing.engines.view import change, dataset, ids
from steelyard.views.in_memory import MemoryView
from steelyard.views.mongodb.view import MongoView
from steelyard.views.open import open_view
from steelyard.views.test_equal import CHANGES, QUERIES, fill
from steelyard.views.view import Query, View, ViewError
from tests.engines.services.mongodb import mongodb
from tests.engines.services.proxy import Proxy, proxy
from tests.engines.services.service import Service
from tests.engines.services.suite import MONGODB

CASES = {**view_suite.CASES, **view_sink.CASES}


def new_url() -> str:
    """Address of a database that is not there yet."""
    return os.environ[MONGODB].replace("/steelyard?", f"/test_{secrets.token_hex(4)}?")


@pytest.fixture
def url() -> Iterator[str]:
    address = new_url()
    yield address
    drop(address)


def drop(address: str) -> None:
    with MongoClient[dict[str, object]](address) as client:
        client.drop_database(client.get_default_database().name)


@pytest.fixture
async def view(url: str) -> AsyncIterator[View]:
    opened = await open_view(url)
    yield opened
    await opened.close()


@pytest.fixture
def service() -> Iterator[Service]:
    """A server of the test's own, which it may kill."""
    with mongodb() as service:
        yield service


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_view_keeps_to_the_contract(view: View, case: view_suite.Case) -> None:
    await case(view)


@settings(deadline=None, max_examples=40)
@given(CHANGES, st.lists(QUERIES, min_size=1, max_size=8))
def test_it_answers_as_the_form_in_memory_does(
    changes: list[tuple[str, dict[str, object] | None, int, int]], queries: list[Query]
) -> None:
    async def compare() -> None:
        address = new_url()
        view, memory = await open_view(address), MemoryView()
        try:
            await fill(memory, changes)
            await fill(view, changes)
            for query in queries:
                assert await view.query(query) == await memory.query(query)
            assert await view.sweep(3, {}) == await memory.sweep(3, {})
            everything = Query("InferenceService")
            assert await view.query(everything) == await memory.query(everything)
        finally:
            await view.close()
            drop(address)

    asyncio.run(compare())


async def test_a_check_of_rights_leaves_nothing_behind(view: View) -> None:
    facts = await view.facts()
    assert facts[-1] == "writes and removes"
    assert any(fact.startswith("clock ") for fact in facts), "the test server says what time it is"
    assert isinstance(view, MongoView)
    assert await view._entities.count_documents({}) == 0


async def test_sinks_side_by_side_lose_nothing(view: View, url: str) -> None:
    other = await open_view(url)
    sinks = (view, other)

    async def write(sink: int) -> None:
        for number in range(20):
            entity = dataset(f"{sink}-{number}")
            await sinks[sink].apply([change(entity, number + 1)], 1, {sink: number + 1})

    await asyncio.gather(write(0), write(1))
    assert len(await ids(view, Query("Dataset"))) == 40
    assert await other.positions(1) == {0: 20, 1: 20}
    await other.close()


async def test_of_an_epoch_that_is_over_nothing_stays(view: View, url: str) -> None:
    """A sink of the earlier epoch writes at the same moments as the resync of the later one."""
    other = await open_view(url)
    for number in range(10):
        epoch = 2 * number + 1
        await view.apply([change(dataset("kept"), 1, epoch)], epoch, {0: 1})

        async def late(epoch: int = epoch) -> None:
            for offset in range(2, 6):
                await other.apply([change(dataset(f"late-{offset}"), offset, epoch)], epoch, {0: offset})

        async def resync(epoch: int = epoch + 1) -> None:
            await view.apply([change(dataset("kept"), 1, epoch)], epoch, {0: 1})
            await view.sweep(epoch, {0: 1})

        await asyncio.gather(late(), resync(), return_exceptions=True)
        assert await ids(view, Query("Dataset")) == ["kept"]
        assert await other.positions(epoch + 1) == {0: 1}
    await other.close()


async def test_a_write_of_another_process_wakes_those_who_wait(view: View, url: str) -> None:
    other = await open_view(url)
    since = view.version()
    waiting = asyncio.create_task(view.wait_for_change(since, 30))
    await other.apply([change(dataset("d1"), 1)], 1, {0: 1})
    assert await waiting != since
    await other.close()


async def test_what_was_confirmed_is_there_after_the_server_was_killed(service: Service) -> None:
    view = await open_view(service.address)
    confirmed = 0

    async def write() -> None:
        nonlocal confirmed
        for number in range(1, 100_000):
            changes = [change(dataset(f"{number}-{part}"), number) for part in range(3)]
            await view.apply(changes, 1, {0: number})
            confirmed = number

    writing = asyncio.create_task(write())
    while confirmed < 50:  # noqa: ASYNC110 - the other task counts
        await asyncio.sleep(0.01)
    await asyncio.to_thread(service.kill)
    await asyncio.to_thread(service.start)
    # The driver tries a write again while the server is away, or says that it cannot know what became of it.
    while not writing.done() and confirmed < 100:  # noqa: ASYNC110 - likewise
        await asyncio.sleep(0.01)
    writing.cancel()
    (outcome,) = await asyncio.gather(writing, return_exceptions=True)
    assert isinstance(outcome, ViewError | asyncio.CancelledError)
    reached = (await view.positions(1))[0]
    assert reached >= confirmed
    there = set(await ids(view, Query("Dataset")))
    assert there == {f"{number}-{part}" for number in range(1, reached + 1) for part in range(3)}
    await view.close()


async def test_a_server_that_is_away_is_one_line(service: Service) -> None:
    view = await open_view(service.address)
    service.kill()
    with pytest.raises(
        ViewError, match=r"^view mongodb://127\.0\.0\.1:\d+/steelyard\?replicaSet=secantus: [^\n]+$"
    ):
        await view.query(Query("Dataset"))
    assert await view.wait_for_change(view.version(), 0.1) == view.version()
    await view.close()
    with pytest.raises(ViewError, match=r"^view mongodb://"):
        await open_view(service.address)


async def test_each_filter_has_an_index(view: View) -> None:
    assert isinstance(view, MongoView)
    names = set(await view._entities.index_information())
    for name in ("account", "status", "name", "model", "inferenceService", "created", "changed", "labels"):
        assert name in names


async def test_a_server_that_is_silent_is_not_waited_for(url: str) -> None:
    """Requests to a server that is cut off end with an error, and go on once the network is whole."""
    ((host, port),) = parse_uri(url)["nodelist"]
    with proxy(port, host=host) as way:
        behind = url.replace(f"{host}:{port}", f"127.0.0.1:{way.port}")
        view = await open_view(f"{behind}&directConnection=true")
        await view.apply([change(dataset("a"), 1)], 1, {0: 1})
        way.cut()
        with pytest.raises(ViewError):
            await view.query(Query("Dataset"))
        # The driver repeats a transaction for two minutes.
        writing = asyncio.create_task(view.apply([change(dataset("b"), 2)], 1, {0: 2}))
        with pytest.raises(ViewError):
            await view.get("Dataset", "a")
        way.heal()
        await writing
        assert len(await view.query(Query("Dataset"))) == 2
        await view.close()


def test_a_view_of_a_silent_server_can_be_closed_at_the_end_of_a_loop(url: str) -> None:
    """The end of a loop cancels the driver's own tasks too, those that would notice the silence."""
    ((host, port),) = parse_uri(url)["nodelist"]
    opened, closed = asyncio.Event(), False

    async def use(address: str) -> None:
        nonlocal closed
        view = await open_view(address)
        await view.apply([change(dataset("a"), 1)], 1, {0: 1})
        opened.set()
        try:
            await asyncio.Event().wait()
        finally:
            async with asyncio.timeout(60):
                await view.close()
                closed = True

    async def main(way: Proxy) -> None:
        using = asyncio.create_task(use(f"{behind}&directConnection=true"))
        await opened.wait()
        way.cut()
        # The loop ends here, and cancels the task.
        assert not using.done()

    with proxy(port, host=host) as way:
        behind = url.replace(f"{host}:{port}", f"127.0.0.1:{way.port}")
        asyncio.run(main(way))
    assert closed
