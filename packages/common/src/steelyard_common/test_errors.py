"""Errors of the system in words."""

import errno
import socket

import pytest

from steelyard_common.errors import system_words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(
            OSError(errno.EADDRINUSE, "asyncio's"), "Address already in use", id="one with a number"
        ),
        pytest.param(
            OSError("could not bind on any address"), "could not bind on any address", id="one without"
        ),
        pytest.param(socket.gaierror(-2, "Name not known"), "Name not known", id="one of a lookup"),
    ],
)
def test_an_error_of_the_system_is_never_a_success(error: OSError, words: str) -> None:
    assert system_words(error) == words
