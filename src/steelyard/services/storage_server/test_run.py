"""The server's settings: without a key, an address or a folder it does not start."""

import asyncio
import socket

import pytest
from pydantic import SecretStr, ValidationError

from steelyard.services.storage_server.run import make_server, run_storage_server
from steelyard.services.storage_server.settings import StorageServerSettings
from steelyard_common.errors import SteelyardError, UsageError

KEYS = StorageServerSettings(access_key=SecretStr("steps"), secret_key=SecretStr("0123456789abcdef"))


@pytest.mark.parametrize(
    ("storage", "settings", "message"),
    [
        pytest.param("s3://bucket", KEYS, "serves a folder", id="a server of its own"),
        pytest.param("file:///data", StorageServerSettings(), "everybody could read", id="no key"),
        pytest.param(
            "file:///data",
            KEYS.model_copy(update={"secret_key": SecretStr("0123456789abcde")}),
            "at least 16 characters",
            id="a short key",
        ),
        pytest.param(
            "file:///data",
            KEYS.model_copy(update={"access_key": SecretStr("a/b")}),
            "access_key should be a name",
            id="a name that no signature can hold",
        ),
    ],
)
def test_a_server_that_would_be_open_is_not_made(
    storage: str, settings: StorageServerSettings, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_server(storage, settings)


async def test_a_server_without_an_address_is_named_and_so_is_one_that_is_taken() -> None:
    server, stop = make_server("file:///nowhere", KEYS), asyncio.Event()
    with pytest.raises(UsageError, match=r"set storage_server\.listen"):
        await run_storage_server(server, "", stop=stop)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SteelyardError, match=f"cannot listen on {where}: Address already in use"):
            await run_storage_server(server, where, stop=stop)


def test_the_name_of_a_bucket_is_one() -> None:
    with pytest.raises(ValidationError):
        StorageServerSettings(bucket="a/b")
