"""A connection closes its own descriptor, and every session has such connections."""

import ast
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import steelyard
from steelyard.connections import OwnedSocket

SOURCE = Path(steelyard.__file__).parent


@pytest.mark.parametrize("end", [OwnedSocket.close, OwnedSocket.__del__], ids=["closed", "forgotten"])
def test_a_socket_leaves_a_descriptor_that_became_anothers(end: Callable[[OwnedSocket], None]) -> None:
    mine = OwnedSocket(socket.AF_INET, socket.SOCK_STREAM)
    number = mine.fileno()
    os.close(number)  # as uvloop does
    with socket.socket() as other:
        assert other.fileno() == number
        end(mine)
        assert other.getsockname()[0] == "0.0.0.0", "it is still open"
    assert mine.fileno() == -1


def test_a_socket_closes_what_is_its_own() -> None:
    mine = OwnedSocket(socket.AF_INET, socket.SOCK_STREAM)
    number = mine.fileno()
    mine.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_every_session_has_such_connections() -> None:
    """aiohttp's own connector makes plain sockets."""
    bare = []
    for path in SOURCE.rglob("*.py"):
        if path.name.startswith("test") or "aiohttp" not in (text := path.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in (
                "aiohttp.ClientSession",
                "aiohttp.TCPConnector",
            ):
                continue
            if not any(keyword.arg == "connector" for keyword in node.keywords):
                bare.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert bare == []
