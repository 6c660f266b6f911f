"""Connections that are forwarded to the Pods of a Service."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from steelyard_common.ports import free_port
from steelyard_local_kubernetes.names.forward import Forwarders
from steelyard_local_kubernetes.names.table import Address

HOST, SILENT = "127.2.0.1", "127.2.0.2"
"""Addresses of the fronts, and of what listens nowhere: no program takes a port of them by chance, as one of 127.0.0.1
while it is free."""


async def serve(name: bytes) -> tuple[Address, asyncio.Server]:
    """Answers a request, which ends with the client's end of sending, by its own name and the request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name + b":" + await reader.read())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    return (host, port), server


async def ask(address: Address, text: bytes = b"hello") -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(text)
    with contextlib.suppress(OSError):  # "not connected" where the other side has closed already
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


@pytest.fixture
async def forwarders() -> AsyncIterator[tuple[Forwarders, list[str]]]:
    said: list[str] = []
    made = Forwarders(said.append, retry=lambda: None)
    yield made, said
    await made.close()


Made = tuple[Forwarders, list[str]]


async def test_connections_go_to_the_ready_ones_in_turn(forwarders: Made) -> None:
    (one, first), (two, second) = await serve(b"one"), await serve(b"two")
    front = (HOST, free_port(HOST))
    await forwarders[0].apply({front: (one, two)})
    answers = [await ask(front) for _ in range(4)]
    assert sorted(answers) == [b"one:hello", b"one:hello", b"two:hello", b"two:hello"]
    first.close()
    second.close()


async def test_one_that_does_not_accept_is_passed_over(forwarders: Made) -> None:
    one, server = await serve(b"one")
    front = (HOST, free_port(HOST))
    await forwarders[0].apply({front: ((SILENT, free_port(SILENT)), one)})
    assert [await ask(front) for _ in range(3)] == [b"one:hello"] * 3
    server.close()


async def test_with_none_ready_a_connection_is_refused_until_one_is(forwarders: Made) -> None:
    one, server = await serve(b"one")
    front = (HOST, free_port(HOST))
    for _ in range(2):
        await forwarders[0].apply({front: ()})
        with pytest.raises(ConnectionRefusedError):
            await ask(front)
        await forwarders[0].apply({front: (one,)})
        assert await ask(front) == b"one:hello"
    server.close()


async def test_with_none_that_accepts_the_connection_ends(forwarders: Made) -> None:
    front = (HOST, free_port(HOST))
    await forwarders[0].apply({front: ((SILENT, free_port(SILENT)),)})
    # By now or by then: no answer either way.
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        assert await ask(front) == b""


async def test_a_service_that_goes_is_no_longer_listened_for(forwarders: Made) -> None:
    one, server = await serve(b"one")
    front = (HOST, free_port(HOST))
    await forwarders[0].apply({front: (one,)})
    assert await ask(front) == b"one:hello"
    await forwarders[0].apply({})
    server.close()
    with pytest.raises(ConnectionRefusedError):
        await ask(front)


async def test_an_address_that_cannot_be_had_is_reported_once(forwarders: Made) -> None:
    front, server = await serve(b"taken")
    for _ in range(2):
        await forwarders[0].apply({front: ((SILENT, free_port(SILENT)),)})
        await forwarders[0].apply({front: ()})
    assert len(forwarders[1]) == 1
    assert f"{front[0]}:{front[1]}" in forwarders[1][0]
    server.close()


async def test_an_address_that_another_program_gives_up_is_tried_again() -> None:
    (front, taken), (one, server) = await serve(b"taken"), await serve(b"one")
    retry = asyncio.Event()
    forwarders = Forwarders(lambda line: None, retry.set, retry_seconds=0.01)
    async with asyncio.timeout(60):
        await forwarders.apply({front: (one,)})
        await retry.wait()
        taken.close()
        await forwarders.apply({front: (one,)})
        assert await ask(front) == b"one:hello"
    await forwarders.close()
    server.close()


async def test_a_spare_address_that_cannot_be_had_is_not_reported(forwarders: Made) -> None:
    front, server = await serve(b"taken")
    await forwarders[0].apply({front: ((SILENT, free_port(SILENT)),)}, spare={front})
    assert forwarders[1] == []
    server.close()


async def test_much_data_passes_unchanged(forwarders: Made) -> None:
    one, server = await serve(b"one")
    front = (HOST, free_port(HOST))
    await forwarders[0].apply({front: (one,)})
    text = bytes(range(256)) * 8192
    assert await ask(front, text) == b"one:" + text
    server.close()
