"""Patterns of hosts, and URLs as users and attackers write them."""

import socket
from typing import Any

import pytest
from pydantic import ValidationError

from steelyard.egress.policy import check_address, check_url, resolve
from steelyard_schema.egress import EgressPolicy, EgressRefused, EgressSettings

PATTERNS = ("hooks.example.org", "*.example.com", "http://plain.example.net", "port.example.net:8443")
POLICY = EgressPolicy(hosts=PATTERNS, setting="egress.webhooks")
ALL = EgressPolicy(hosts=("http://*",))


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.org",
        "https://hooks.example.org:8443/path?token=x",
        "https://HOOKS.example.org./",
        "https://a.example.com/",
        "https://a.b.example.com/",
        "http://plain.example.net/",
        "https://plain.example.net/",
        "https://port.example.net:8443/",
    ],
)
def test_allows(url: str) -> None:
    check_url(POLICY, url)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/",
        "https://hooks.example.org.evil.net/",
        "https://evil-hooks.example.org/",
        "https://example.com/",
        "https://evilexample.com/",
        "http://hooks.example.org/",
        "https://port.example.net/",
        "https://plain.example.net@evil.net/",
        "https://evil.net#.example.com",
        "https://evil.net/.example.com",
        "https://evil.net?.example.com",
    ],
)
def test_refuses_what_no_pattern_names(url: str) -> None:
    with pytest.raises(EgressRefused):
        check_url(POLICY, url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.org",
        "ftp://hooks.example.org/",
        "file:///etc/passwd",
        "gopher://hooks.example.org/",
        "https://",
        "https:///path",
        "https://user@hooks.example.org/",
        "https://user:secret@hooks.example.org/",
        "https://hooks.example.org:99999/",
        "https://hooks.example.org\\@evil.net/",
        "https://hooks.example.org/\n",
        "https://hooks.example.org/ x",
        "https://höoks.example.org/",
        "https://[::1",
        "https://[fe80::1%25eth0]/",
        "https://127.1/",
        "https://0x7f.0.0.1/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://0177.0.0.1/",
        "https://x..y/",
        "https://a/" + "b" * 2048,
    ],
)
def test_refuses_what_is_no_plain_url(url: str) -> None:
    with pytest.raises(EgressRefused):
        check_url(ALL, url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "https://10.1.2.3:8080/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "https://[fd00::1]/",
    ],
)
def test_refuses_literal_addresses_that_are_not_public(url: str) -> None:
    with pytest.raises(
        EgressRefused, match=r"is an address that is not public.* egress\.networks, which names none"
    ):
        check_url(ALL, url)


def test_names_the_field_the_value_and_what_is_allowed() -> None:
    with pytest.raises(EgressRefused) as refused:
        check_url(POLICY, "https://evil.net/path?token=secret", field="address")
    assert str(refused.value) == (
        "address: 'https://evil.net/path' is not allowed: egress.webhooks has no pattern for https://evil.net:443; "
        "allowed are hooks.example.org, *.example.com, http://plain.example.net, port.example.net:8443"
    )
    assert (refused.value.field, refused.value.allowed) == ("address", PATTERNS)


def test_repeats_no_password() -> None:
    with pytest.raises(EgressRefused) as refused:
        check_url(POLICY, "https://user:secret@evil.net/")
    assert "secret" not in f"{refused.value} {refused.value.value}"


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00::5"])
def test_a_named_network_is_allowed_in_every_form(address: str) -> None:
    check_address(EgressPolicy(networks=("10.1.0.0/16", "fd00::/64")), address)


@pytest.mark.parametrize("address", ["10.2.0.1", "fd00:1::5", "127.0.0.1"])
def test_a_named_network_allows_no_other(address: str) -> None:
    with pytest.raises(EgressRefused, match=r"which names 10\.1\.0\.0/16, fd00::/64"):
        check_address(EgressPolicy(networks=("10.1.0.0/16", "fd00::/64")), address)


@pytest.mark.parametrize(
    "pattern", ["", "https://a.org", "a.org/path", "*a.org", "a.*.org", "a.org:0", "a.org:x", "a b"]
)
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError, match=r"should be a host, \*\.DOMAIN or \*"):
        EgressSettings(webhooks=(pattern,))


def test_a_network_with_host_bits_is_refused() -> None:
    with pytest.raises(ValidationError, match="should be a network"):
        EgressSettings(networks=("10.1.0.1/16",))


def test_nothing_is_allowed_by_default_but_public_sources() -> None:
    settings = EgressSettings()
    check_url(settings.policy("sources"), "https://huggingface.co/org/model")
    for purpose in ("webhooks", "services"):
        with pytest.raises(EgressRefused, match=f"egress.{purpose} has no pattern .*; none is allowed there"):
            check_url(settings.policy(purpose), "https://huggingface.co/")


async def test_one_private_address_of_several_condemns_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = ["1.1.1.1", "10.0.0.1"]

    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(EgressRefused, match="'name' leads to an address that is not public") as refused:
        await resolve(EgressPolicy(), "name", 443)
    assert "10.0.0.1" not in str(refused.value)  # it would reveal names of the network behind this one
    addresses.pop()
    assert await resolve(EgressPolicy(), "name", 443) == ["1.1.1.1"]
