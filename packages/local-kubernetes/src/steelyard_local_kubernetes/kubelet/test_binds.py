"""Tests of the binds and connections of training Pods, and of the calls that ask the shim."""

import socket
import struct
from typing import Any

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.kubelet import seccomp
from steelyard_local_kubernetes.kubelet.sockaddr import Address, own, parse, rewrite_bind
from steelyard_local_kubernetes.kubelet.testing import make_pod
from steelyard_local_kubernetes.pod_traits import binds_are_its_own, host_name, may_bind_all

HOST = socket.inet_aton("127.200.0.7")
STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM


def v4(address: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(address) + b"\0" * 8


def v6(address: str, port: int) -> bytes:
    head = struct.pack("=H", socket.AF_INET6) + struct.pack(">H", port) + b"flow"
    return head + socket.inet_pton(socket.AF_INET6, address) + b"\3\0\0\0"


OWN6 = "::ffff:127.200.0.7"


@pytest.mark.parametrize(
    ("requested", "kind", "only", "becomes"),
    [
        pytest.param(v4("0.0.0.0", 80), STREAM, False, v4("127.200.0.7", 80), id="all addresses"),
        pytest.param(v4("0.0.0.0", 0), STREAM, False, v4("127.200.0.7", 0), id="any port of all addresses"),
        pytest.param(v4("127.0.0.1", 80), STREAM, False, v4("127.200.0.7", 80), id="a port of the loopback"),
        pytest.param(v4("127.0.0.1", 0), STREAM, False, None, id="any port of the loopback is free anyway"),
        pytest.param(v4("127.200.0.7", 80), STREAM, False, None, id="its own address"),
        pytest.param(v4("127.200.0.8", 80), STREAM, False, None, id="another address"),
        pytest.param(v4("0.0.0.0", 80), DATAGRAM, False, v4("127.200.0.7", 80), id="datagrams"),
        pytest.param(v4("0.0.0.0", 0), DATAGRAM, False, None, id="datagrams to anywhere"),
        pytest.param(v4("0.0.0.0", 80), socket.SOCK_RAW, False, None, id="raw sockets"),
        pytest.param(v6("::", 80), STREAM, False, v6(OWN6, 80), id="all addresses of both families"),
        pytest.param(v6("::ffff:0.0.0.0", 80), STREAM, False, v6(OWN6, 80), id="all addresses, mapped"),
        pytest.param(v6("::1", 80), STREAM, False, v6(OWN6, 80), id="the loopback of IPv6"),
        pytest.param(v6("::", 80), STREAM, True, v6("::1", 0), id="IPv6 alone is out of the way"),
        pytest.param(v6("::1", 80), STREAM, True, None, id="the loopback of IPv6 alone"),
        pytest.param(v6("fe80::1", 80), STREAM, False, None, id="another address of IPv6"),
    ],
)
def test_what_a_bind_becomes(requested: bytes, kind: int, only: bool, becomes: bytes | None) -> None:
    address = parse(requested)
    assert address is not None
    result = rewrite_bind(address, HOST, kind, v6_only=only)
    assert (result and result.pack()) == becomes


@pytest.mark.parametrize("raw", [b"", struct.pack("=H", socket.AF_UNIX) + b"/run/socket", v6("::", 1)[:20]])
def test_what_is_no_address_of_the_internet(raw: bytes) -> None:
    assert parse(raw) is None


def test_an_address_without_a_family_is_all_addresses_as_linux_takes_it() -> None:
    assert parse(b"\0\0" + v4("0.0.0.0", 80)[2:]) == Address(socket.AF_INET, 80, b"\0" * 4, rest=b"\0" * 8)
    assert parse(b"\0\0" + v4("127.0.0.1", 80)[2:]) is None


def test_an_address_keeps_its_port() -> None:
    address = parse(v6("::1", 443))
    assert address is not None
    assert own(address, HOST).pack() == v6(OWN6, 443)


def decided(program: bytes, audit: int, number: int) -> int:
    """Return the kernel's decision about a call, by running the filter."""
    steps = list(struct.iter_unpack("=HBBI", program))
    at, value = 0, 0
    while True:
        code, true, false, constant = steps[at]
        if code == 0x06:
            return int(constant)
        if code == 0x20:
            value = {0: number, 4: audit}[constant]
        at += 1 + ((true if value == constant else false) if code == 0x15 else 0)


@pytest.mark.parametrize("machine", seccomp.MACHINES.values(), ids=seccomp.MACHINES)
def test_only_the_named_calls_ask(machine: seccomp.Machine) -> None:
    program = seccomp.program(machine, ("bind", "connect"))
    ask, allow = 0x7FC00000, 0x7FFF0000
    for number in range(500):
        expected = ask if number in machine.calls.values() else allow
        assert decided(program, machine.audit, number) == expected
        assert decided(program, machine.audit ^ 1, number) == allow


def make_labelled(key: str, value: str = "x", **spec: Any) -> Json:
    pod = make_pod(**spec)
    pod["metadata"]["labels"][key] = value
    return pod


def make_annotated(label: str) -> Json:
    pod = make_labelled(label)
    pod["metadata"]["annotations"] = {"steelyard/binds": "as-asked"}
    return pod


@pytest.mark.parametrize(
    ("pod", "rewritten", "free", "free_without"),
    [
        (make_pod(), False, False, False),
        (make_labelled("training.kubeflow.org/job-name"), True, False, True),
        (make_labelled("steelyard/training"), True, False, True),
        (make_labelled("ray.io/cluster"), True, False, True),
        (make_labelled("training.kubeflow.org/job-name", hostNetwork=True), False, True, True),
        (make_labelled("training.kubeflow.org/operator-name", "mpijob-controller"), False, True, True),
        (make_annotated("training.kubeflow.org/job-name"), False, True, True),
        (make_annotated("app"), False, False, False),
    ],
    ids=[
        "a plain Pod",
        "a training Pod",
        "a training Pod of our own kind",
        "a Pod of a Ray cluster",
        "a training Pod of the host",
        "a Pod of MPI",
        "one that asks for it",
        "no training Pod may",
    ],
)
def test_whose_binds_are_whose(pod: Json, rewritten: bool, free: bool, free_without: bool) -> None:
    assert binds_are_its_own(pod, available=True) is rewritten
    assert not binds_are_its_own(pod, available=False)
    assert may_bind_all(pod, available=True) is free
    assert may_bind_all(pod, available=False) is free_without


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        ("job-worker-0", {}, "job-worker-0"),
        ("x", {"hostname": "given"}, "given"),
        ("w" * 62 + "-0", {}, "w" * 62),
        ("x", {"hostNetwork": True}, ""),
    ],
)
def test_the_host_name_of_a_pod(name: str, spec: dict[str, object], expected: str) -> None:
    assert host_name(make_pod(name=name, **spec)) == expected
