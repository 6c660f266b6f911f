"""A platform that starts again keeps its address, for which it waits a while."""

import asyncio
import os
import socket

import pytest

from steelyard.local import machine
from steelyard.local.supervisor import _reserve_port
from steelyard_common.errors import UsageError


async def test_the_last_port_is_waited_for() -> None:
    """A process that a killed supervisor had just started has the port until it learns of the end."""
    said: list[str] = []
    with socket.socket() as leftover:
        leftover.bind(("127.0.0.1", 0))
        leftover.listen()
        port = leftover.getsockname()[1]
        choosing = asyncio.create_task(_reserve_port("--api-port", 0, port, said.append, patience=60))
        await asyncio.sleep(0.1)
        assert not choosing.done()
    with await choosing as reserved:
        assert machine.socket_port(reserved) == port
    assert said == []


async def test_a_port_that_stays_taken_is_replaced() -> None:
    said: list[str] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with await _reserve_port("--api-port", 0, port, said.append, patience=0.1) as reserved:
            chosen = machine.socket_port(reserved)
        assert chosen != port
        assert said == [f"port {port} is taken by {machine.listener_name(port)}; this time it is {chosen}"]
        assert f"pid {os.getpid()} (" in said[0]


async def test_a_port_that_is_asked_for_and_taken_is_named_with_its_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=rf"--port {port}: is taken by pid {os.getpid()} \("):
            await _reserve_port("--port", port, 0, lambda _: None)
