"""Tests of how far a caller of `attach` may be behind the container."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard_local_kubernetes.kubelet import attach
from steelyard_local_kubernetes.kubelet.attach import PACKET, STALLED_SECONDS, AttachedCallers, connect

BLOCK = b"x" * PACKET


class Time:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(attach, "time", time)
    return time


@pytest.fixture
def attached(tmp_path: Path, time: Time) -> Iterator[AttachedCallers]:
    attached = AttachedCallers(str(tmp_path / "0"), None, None, once=False)
    yield attached
    attached.close(str(tmp_path / "0"))


@pytest.fixture
def caller(attached: AttachedCallers, tmp_path: Path) -> Iterator[socket.socket]:
    with connect(str(tmp_path / "0")) as caller:
        caller.send(b"o")
        attached.handle([attached.listener.fileno()])
        (fd,) = attached.callers
        attached.handle([fd])
        yield caller


def read(caller: socket.socket) -> int:
    """Return how many bytes of output the caller has got by now."""
    got = 0
    try:
        while packet := caller.recv(PACKET):
            got += len(packet) - 1
    except BlockingIOError:
        pass
    return got


def fill(attached: AttachedCallers) -> int:
    """Write until the container's output has to wait; return the number of bytes."""
    for number in range(1000):
        if attached.is_behind():
            return number * len(BLOCK)
        attached.show("stdout", BLOCK)
    raise AssertionError("it waits for no caller")


def test_a_slow_caller_gets_everything(attached: AttachedCallers, caller: socket.socket, time: Time) -> None:
    written = got = 0
    for _ in range(5):
        written += fill(attached)
        time.now += STALLED_SECONDS - 1
        got += read(caller)
        attached.handle([])
    while attached.writes():
        assert attached.callers
        got += read(caller)
        attached.handle([])
    assert got + read(caller) == written


def test_a_caller_that_reads_nothing_is_left_behind(
    attached: AttachedCallers, caller: socket.socket, time: Time
) -> None:
    fill(attached)
    time.now += STALLED_SECONDS - 1
    attached.handle([])
    assert attached.is_behind()
    time.now += 1
    attached.handle([])
    assert not attached.is_behind()
    assert not attached.callers


def test_a_caller_that_nothing_waits_for_is_not_behind(
    attached: AttachedCallers, caller: socket.socket, time: Time
) -> None:
    time.now += 3600
    fill(attached)
    assert len(attached.callers) == 1
