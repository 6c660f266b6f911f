"""The networks themselves: packets on a cut link are lost, two are side by side, and nothing of them stays."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engines.build import Missing
from tests.engines.services.network import ADDRESSES, Network, network, require

PORT = 5000
SECONDS = 120.0
ECHO = f"""
import socket, sys, threading
def answer(connection):
    while chunk := connection.recv(1 << 16):
        connection.sendall(chunk)
with socket.create_server((sys.argv[1], {PORT})) as server:
    print("listens", flush=True)
    while True:
        threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
"""
OF_A_RUN = """
import sys
from tests.engines.services.network import network
with network(silent=True) as made:
    print(made.name, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    try:
        require()
    except Missing as missing:
        pytest.skip(str(missing))


@contextmanager
def echo(made: Network) -> Iterator[None]:
    """A server in a network that returns what it gets."""
    command = [*made.place.enter, sys.executable, "-c", ECHO, made.host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "listens\n"
            yield
        finally:
            server.kill()


def links() -> set[str]:
    return {name for name in os.listdir("/sys/class/net") if name.startswith("steelyard-")}


def until_gone(name: str) -> None:
    end = time.monotonic() + SECONDS
    while name in links():
        assert time.monotonic() < end, f"{name} is still there"
        time.sleep(0.02)


def test_what_is_sent_while_the_link_is_down_is_lost_until_it_is_sent_again() -> None:
    with network(silent=True) as made, echo(made):
        with socket.create_connection((made.host, PORT), timeout=SECONDS) as kept:
            kept.sendall(b"before")
            assert kept.recv(6) == b"before"
            made.cut()
            kept.sendall(b"during")
            kept.settimeout(0.5)
            with pytest.raises(TimeoutError):
                kept.recv(6)
            with pytest.raises(TimeoutError):
                socket.create_connection((made.host, PORT), timeout=1.0)
            made.heal()
            kept.settimeout(SECONDS)
            assert kept.recv(6) == b"during"
        socket.create_connection((made.host, PORT), timeout=SECONDS).close()


def test_a_host_that_does_not_answer_is_refused_by_the_kernel() -> None:
    with network(silent=False) as made, echo(made):
        socket.create_connection((made.host, PORT), timeout=SECONDS).close()
        made.cut()
        with pytest.raises(OSError, match="No route to host"):
            socket.create_connection((made.host, PORT), timeout=SECONDS)
        made.heal()
        socket.create_connection((made.host, PORT), timeout=SECONDS).close()


def test_nothing_leads_out_of_a_network() -> None:
    with network(silent=True) as made:
        outside = str(ADDRESSES[-2])
        code = f"import socket; socket.create_connection(({outside!r}, 80), timeout=5)"
        done = subprocess.run(
            [*made.place.enter, sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert "Network is unreachable" in done.stderr


def test_two_are_side_by_side_and_a_cut_concerns_one() -> None:
    with network(silent=True) as one, network(silent=True) as other, echo(one), echo(other):
        one.cut()
        with pytest.raises(TimeoutError):
            socket.create_connection((one.host, PORT), timeout=0.5)
        socket.create_connection((other.host, PORT), timeout=SECONDS).close()
    until_gone(one.name)
    until_gone(other.name)


def test_nothing_is_left_after_its_run_is_killed() -> None:
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", OF_A_RUN], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        name = run.stdout.readline().strip()
        assert name in links()
        run.send_signal(signal.SIGKILL)
        run.wait()
        until_gone(name)


def test_networks_that_are_made_at_once_have_different_addresses() -> None:
    names: list[str] = []
    together = threading.Barrier(8)

    def make() -> None:
        with network(silent=True) as made:
            names.append(made.host)
            together.wait(SECONDS)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 8
