"""Datagrams that are forwarded to the Pods of a Service."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from steelyard_local_kubernetes.names.datagrams import DatagramForwarders
from steelyard_local_kubernetes.names.table import Address

SECONDS = 30.0
HOST = "127.2.0.1"
"""Address of the fronts: no program takes a port of it by chance, as one of 127.0.0.1 while it is free."""


def bound(host: str = "127.0.0.1") -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind((host, 0))
    one.setblocking(False)
    return one


@pytest.fixture
def pods() -> Iterator[tuple[socket.socket, socket.socket]]:
    with bound() as one, bound() as two:
        yield one, two


@pytest.fixture
async def forwarders() -> AsyncIterator[DatagramForwarders]:
    made = DatagramForwarders(lambda text: None, retry=lambda: None)
    yield made
    made.close()


def free_front() -> Address:
    with bound(HOST) as one:
        host, port = one.getsockname()
        return host, port


async def receive(one: socket.socket) -> tuple[bytes, Address]:
    data, address = await asyncio.wait_for(asyncio.get_running_loop().sock_recvfrom(one, 100), SECONDS)
    return data, address


async def send(one: socket.socket, data: bytes, address: Address) -> None:
    await asyncio.get_running_loop().sock_sendto(one, data, address)


async def test_a_client_talks_with_one_pod_and_gets_its_answers(
    forwarders: DatagramForwarders, pods: tuple[socket.socket, socket.socket]
) -> None:
    front = free_front()
    await forwarders.apply({front: (pods[0].getsockname(),)}, {})
    with bound() as client, bound() as other:
        for one, word in ((client, b"a"), (other, b"b"), (client, b"c")):
            await send(one, word, front)
            data, flow = await receive(pods[0])
            assert data == word
            await send(pods[0], data * 2, flow)
            assert await receive(one) == (word * 2, front)


async def test_a_pod_that_is_not_ready_any_more_gets_nothing_further(
    forwarders: DatagramForwarders, pods: tuple[socket.socket, socket.socket]
) -> None:
    front, one, two = free_front(), pods[0].getsockname(), pods[1].getsockname()
    await forwarders.apply({front: (one,)}, {})
    with bound() as client:
        await send(client, b"a", front)
        assert (await receive(pods[0]))[0] == b"a"
        await forwarders.apply({front: (two,)}, {})
        await send(client, b"b", front)
        assert (await receive(pods[1]))[0] == b"b"
        with contextlib.suppress(BlockingIOError):
            assert not pods[0].recv(100)


async def test_a_port_that_is_taken_is_reported_once(pods: tuple[socket.socket, socket.socket]) -> None:
    said: list[str] = []
    forwarders = DatagramForwarders(said.append, retry=lambda: None)
    for _ in range(2):
        await forwarders.apply({pods[0].getsockname(): (pods[1].getsockname(),)}, {})
        await forwarders.apply({pods[0].getsockname(): ()}, {})
    forwarders.close()
    assert len(said) == 1
    assert "/UDP" in said[0]


async def test_with_none_ready_a_datagram_is_refused_until_one_is(
    forwarders: DatagramForwarders, pods: tuple[socket.socket, socket.socket]
) -> None:
    front, one = free_front(), pods[0].getsockname()
    for _ in range(2):
        await forwarders.apply({front: ()}, {})
        with bound() as client:
            client.connect(front)
            client.send(b"a")
            with pytest.raises(ConnectionRefusedError):
                await receive(client)
        await forwarders.apply({front: (one,)}, {})
        with bound() as client:
            await send(client, b"b", front)
            assert (await receive(pods[0]))[0] == b"b"


async def test_a_port_that_another_program_gives_up_is_tried_again(
    pods: tuple[socket.socket, socket.socket],
) -> None:
    retry, taken = asyncio.Event(), bound(HOST)
    front = taken.getsockname()
    forwarders = DatagramForwarders(lambda line: None, retry.set, retry_seconds=0.01)
    async with asyncio.timeout(60):
        await forwarders.apply({front: (pods[0].getsockname(),)}, {})
        await retry.wait()
        taken.close()
        await forwarders.apply({front: (pods[0].getsockname(),)}, {})
        with bound() as client:
            await send(client, b"a", front)
            assert (await receive(pods[0]))[0] == b"a"
    forwarders.close()
