"""The proxy itself: data that are cut off wait, and arrive afterwards; slow data arrive late and in order."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.engines.services.proxy import Proxy, proxy


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that returns what it gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,)).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            while chunk := connection.recv(1 << 16):
                connection.sendall(chunk)

    thread = threading.Thread(target=serve)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def call(way: Proxy, content: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", way.port), timeout=120) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(1 << 16):
            answer += chunk
    return answer


def test_everything_goes_through_with_its_end(echo: int) -> None:
    content = bytes(range(256)) * 10_000
    with proxy(echo) as way:
        assert call(way, content) == content
        way.slow_down(0.05)
        assert call(way, content) == content


def test_what_is_cut_off_is_silent_and_arrives_once_the_network_is_whole(echo: int) -> None:
    with proxy(echo) as way, socket.create_connection(("127.0.0.1", way.port)) as kept:
        kept.sendall(b"before")
        assert kept.recv(6) == b"before"
        way.cut()
        kept.sendall(b"during")
        with socket.create_connection(("127.0.0.1", way.port), timeout=120) as late:
            late.sendall(b"new")
            late.settimeout(0.3)
            with pytest.raises(TimeoutError):
                late.recv(3)
            way.heal()
            late.settimeout(120)
            assert late.recv(3) == b"new"
        kept.settimeout(120)
        assert kept.recv(6) == b"during"


def test_a_server_that_is_gone_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        proxy(port) as way,
        socket.create_connection(("127.0.0.1", way.port), timeout=120) as connection,
        contextlib.suppress(ConnectionResetError),
    ):
        assert connection.recv(1) == b""
