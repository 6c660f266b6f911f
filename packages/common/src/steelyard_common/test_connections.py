"""A connection closes its own descriptor, and every session has such connections."""

import os
import socket
from collections.abc import Callable

import pytest

from steelyard_common.connections import OwnedSocket


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
