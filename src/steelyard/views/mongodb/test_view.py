"""Tests of how the client of MongoDB is made; what it does is tested with a server, in tests/engines."""

import pytest

from steelyard.views.mongodb.view import make_client


@pytest.mark.parametrize(("options", "retried"), [("", True), ("&retryWrites=false", False)])
async def test_an_address_says_whether_writes_are_sent_again(options: str, retried: bool) -> None:
    """Amazon DocumentDB refuses writes that may be sent again, and its addresses say `retryWrites=false`."""
    client = make_client(f"mongodb://127.0.0.1:1/steelyard?replicaSet=rs0{options}")
    assert client.options.retry_writes is retried
    await client.close()
