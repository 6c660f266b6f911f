"""Callers that may read figures, and others."""

import pytest

from steelyard_common.serving.figures_access import TOKEN_VARIABLE, may_read

TOKEN = {TOKEN_VARIABLE: "secret"}


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
def test_programs_of_this_machine(peer: str) -> None:
    assert may_read(peer, {}, {})
    for name in ("x-forwarded-for", "forwarded", "via", "x-real-ip"):
        assert not may_read(peer, {name: "10.0.0.1"}, {})
        assert may_read(peer, {name: "10.0.0.1", "authorization": "Bearer secret"}, TOKEN)


@pytest.mark.parametrize(
    "peer", ["10.0.0.1", "8.8.8.8", "fe80::1%eth0", "::ffff:10.0.0.1", "", None, "localhost"]
)
def test_others_need_the_token(peer: str | None) -> None:
    assert may_read(peer, {"authorization": "Bearer secret"}, TOKEN)
    for shown in ("", "Bearer", "Bearer ", "Bearer wrong", "Basic secret", "secret", "Bearer secret2"):
        assert not may_read(peer, {"authorization": shown}, TOKEN)
        assert not may_read(peer, {"authorization": shown}, {})
    assert not may_read(peer, {"authorization": "Bearer \udcff"}, TOKEN)  # b"\xff" in the request
    assert not may_read(peer, {"authorization": "Bearer "}, {TOKEN_VARIABLE: ""})
