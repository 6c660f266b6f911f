"""Addresses that may be called without being named, and those that carry another."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.egress.addresses import find_carried, is_public, parse_address


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::8.8.8.8",
        "2001:0:53aa:64c::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "5f00::1",
        "100::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_is_not_public(address: str) -> None:
    assert not is_public(parse_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "172.32.0.1",
        "192.0.1.1",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
    ],
)
def test_is_public(address: str) -> None:
    assert is_public(parse_address(address))


@given(st.ip_addresses())
def test_what_python_knows_to_be_private_is_never_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    target = find_carried(address)  # Python calls all carriers reserved
    known = target.is_private or target.is_loopback or target.is_link_local or target.is_multicast
    assert not (is_public(address) and (known or target.is_reserved or target.is_unspecified))


@given(st.ip_addresses(v=4))
def test_a_carried_address_counts_as_itself(address: ipaddress.IPv4Address) -> None:
    forms = [
        f"::ffff:{address}",
        f"64:ff9b::{address}",
        str(ipaddress.IPv6Address((0x2002 << 112) | int(address) << 80)),
    ]
    assert {is_public(parse_address(form)) for form in forms} == {is_public(address)}
