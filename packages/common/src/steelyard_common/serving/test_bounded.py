"""Cost of one connection for the others: how much of it is read, and whether it takes a place."""

import asyncio
import contextlib
import socket
from typing import Any

import pytest
from aiohttp import web

from steelyard_common.serving.aiohttp_server import serving_app
from steelyard_common.serving.bounded import LINGER_BYTES, BoundedConnection, Door, bind
from steelyard_common.serving.limits import HttpLimits

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
LIMITS = HttpLimits(connections=4)


class _Transport(asyncio.Transport):
    """A caller's end: what it was sent, and whether it is read and open."""

    def __init__(self, unread: int = 0) -> None:
        super().__init__()
        self.sent, self.unread, self.reads, self.ended = b"", unread, True, False

    def write(self, data: Any) -> None:
        self.sent += data

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        self.reads = False

    def is_closing(self) -> bool:
        return self.ended

    def abort(self) -> None:
        self.ended = True

    def get_protocol(self) -> asyncio.BaseProtocol:
        return asyncio.Protocol()


def connect(door: Door, transport: _Transport, sent: bytes = b"") -> BoundedConnection:
    connection = door()
    connection.connection_made(transport)
    if sent:
        connection.data_received(sent)
    return connection


def a_door(*, works: bool) -> Door:
    return Door(asyncio.Protocol, works=lambda _: works, begun=lambda _: works, limits=LIMITS)


async def test_a_refused_head_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    take = BoundedConnection.on_header

    def on_header(self: BoundedConnection, name: bytes, value: bytes) -> None:
        seen.append(name)
        take(self, name, value)

    monkeypatch.setattr(BoundedConnection, "on_header", on_header)
    connect(a_door(works=False), caller := _Transport(), HEAD + b"a: b\r\n" * 40_000)
    assert caller.sent.startswith(b"HTTP/1.1 431 ")
    assert len(seen) <= LIMITS.headers + 1


async def test_a_refused_caller_takes_no_place_and_is_read_no_further_than_it_may_have_sent() -> None:
    door = a_door(works=False)
    callers = [_Transport() for _ in range(10)]
    connections = [connect(door, caller, HEAD + b"a: b\r\n" * 200) for caller in callers]
    assert not door.open
    assert [caller.ended for caller in callers] == [True] * 8 + [False] * 2
    reads = []
    for more in (b"a" * LINGER_BYTES, b"a"):
        connections[-1].data_received(more)
        reads.append(callers[-1].reads)
    assert reads == [True, False]
    door.close()
    assert all(caller.ended for caller in callers)


@pytest.mark.parametrize(
    ("unread", "sent"),
    [(1, HEAD + b"\r\n"), (0, (HEAD + b"\r\n") * 2)],
    ids=["an answer that is not taken", "requests at once"],
)
async def test_who_takes_no_answers_or_asks_for_many_goes_first_where_all_are_at_work(
    unread: int, sent: bytes
) -> None:
    door = a_door(works=True)
    honest, greedy, later, new = _Transport(), _Transport(unread), _Transport(unread), _Transport()
    connect(door, honest, HEAD + b"\r\n")
    connect(door, greedy, sent)
    connect(door, later, sent)
    connect(door, _Transport(), HEAD + b"\r\n")
    connect(door, new, HEAD + b"\r\n")
    assert [caller.ended for caller in (honest, greedy, later, new)] == [False, True, False, False]
    assert new.sent == b""


async def test_a_caller_that_finds_no_place_is_told_so_and_costs_the_server_nothing() -> None:
    made = []

    def inner() -> asyncio.Protocol:
        made.append(protocol := asyncio.Protocol())
        return protocol

    door = Door(inner, works=lambda _: True, limits=LIMITS)
    for _ in range(4):
        connect(door, _Transport(), HEAD + b"\r\n")
    connect(door, caller := _Transport(), HEAD + b"\r\n")
    assert caller.sent.startswith(b"HTTP/1.1 503 ")
    assert len(made) == 4


async def test_a_door_that_is_closed_takes_nobody() -> None:
    door = a_door(works=False)
    door.close()
    connect(door, caller := _Transport())
    assert caller.ended


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return socket.has_dualstack_ipv6()
    return False


ADDRESSES = pytest.mark.parametrize(("host", "callers"), [("::", ["127.0.0.1", "::1"]), ("::1", ["::1"])])


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@ADDRESSES
def test_the_address_of_all_is_that_of_both_families(host: str, callers: list[str]) -> None:
    with bind(host, 0) as listening:
        for caller in callers:
            with socket.create_connection((caller, listening.getsockname()[1])):
                pass


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@ADDRESSES
async def test_it_is_so_for_the_servers_of_aiohttp(host: str, callers: list[str]) -> None:
    async with serving_app(web.Application(), host) as (_, port):
        for caller in callers:
            _, writer = await asyncio.open_connection(caller, port)
            writer.close()
