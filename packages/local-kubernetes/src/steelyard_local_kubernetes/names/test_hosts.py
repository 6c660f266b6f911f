"""The file of names that Pods read: it changes while others read it."""

import socket
import subprocess
import sys
from pathlib import Path

from steelyard_local_kubernetes.names.hosts import QUARANTINE, SLOT, HostsFile, machine_lines

A = ("127.9.0.1", ("a.default.svc.cluster.local", "a.default.svc", "a.default"))
B = ("127.9.0.2", ("b.default.svc.cluster.local", "b.default.svc", "b.default"))
C = ("127.9.0.3", ("c.default.svc.cluster.local", "c.default.svc", "c.default"))


def names(path: Path) -> dict[str, list[str]]:
    """Return the names of a hosts file as a resolver reads them."""
    lines = [line.partition("#")[0].split() for line in path.read_text().splitlines()]
    lookups: dict[str, list[str]] = {}
    for address, *hosts in filter(None, lines):
        for host in hosts:
            lookups.setdefault(host, []).append(address)
    return lookups


def test_names_come_and_go(tmp_path: Path) -> None:
    file = HostsFile(tmp_path / "hosts")
    file.show([A, B], now=0)
    assert names(tmp_path / "hosts")["a.default.svc"] == ["127.9.0.1"]
    file.show([B, C], now=1)
    assert set(names(tmp_path / "hosts")) == {"localhost", *B[1], *C[1]}
    file.close()


def test_a_name_may_have_several_addresses(tmp_path: Path) -> None:
    file = HostsFile(tmp_path / "hosts")
    file.show([A, ("127.9.0.7", A[1])], now=0)
    assert sorted(names(tmp_path / "hosts")["a.default.svc"]) == ["127.9.0.1", "127.9.0.7"]
    file.close()


def test_the_inode_stays_and_a_new_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    first = HostsFile(path)
    first.show([A, B], now=0)
    inode = path.stat().st_ino
    first.close()
    second = HostsFile(path)
    second.show([B], now=0)
    assert path.stat().st_ino == inode
    assert set(names(path)) == {"localhost", *B[1]}
    second.close()


def test_a_file_of_another_form_is_started_again(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 localhost\n" * 100)
    file = HostsFile(path)
    file.show([A], now=0)
    assert set(names(path)) == {"localhost", *A[1]}
    file.close()


def test_a_hidden_slot_rests_before_it_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    file = HostsFile(path)
    file.show([A], now=0)
    file.show([], now=1)
    file.show([B], now=2)
    assert path.stat().st_size == 3 * SLOT  # localhost, A's at rest, B's
    file.show([], now=3)
    file.show([C], now=3 + QUARANTINE)
    assert path.stat().st_size == 3 * SLOT
    assert set(names(path)) == {"localhost", *C[1]}
    file.close()


READER = """
import sys
allowed, path = set(sys.argv[2:]), sys.argv[1]
looks = 0
print("reading", flush=True)
while True:
    with open(path, "rb") as file:
        text = file.read().decode()
    looks += 1
    for line in text.splitlines():
        line = line.partition("#")[0]
        if line.strip() and "=".join(line.split()[:2]) not in allowed:
            sys.exit(f"read a line that never was: {line!r}")
    if "127.9.255.255=end" in {"=".join(l.split()[:2]) for l in text.splitlines()}:
        break
sys.exit(0 if looks > 20 else f"only {looks} looks")
"""


def test_no_reader_ever_sees_a_line_that_was_not_meant(tmp_path: Path) -> None:
    """Names of changing lengths and addresses come and go while another process reads without pause."""
    path = tmp_path / "hosts"
    file = HostsFile(path)
    entries = [(f"127.9.{n % 200}.{n % 250}", (f"{'x' * (n % 60 + 1)}{n}.default.svc",)) for n in range(60)]
    end = ("127.9.255.255", ("end",))
    allowed = [f"{address}={hosts[0]}" for address, hosts in [*entries, end, ("127.0.0.1", ("localhost",))]]
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(path), *allowed], stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    reader.stdout.readline()
    for step in range(1500):
        first = step * 7 % 60
        file.show(entries[first : first + 20], now=step * QUARANTINE / 3)
    file.show([end], now=1e9)
    assert reader.wait(timeout=30) == 0
    reader.stdout.close()
    file.close()


def test_the_machines_own_lines_stay(tmp_path: Path) -> None:
    own = tmp_path / "etc"
    own.write_text(
        "# comment\n127.0.0.1\tlocalhost\n::1 localhost ip6-localhost\n10.1.2.3 storage # the array\n"
    )
    assert machine_lines(own) == ("127.0.0.1 localhost", "::1 localhost ip6-localhost", "10.1.2.3 storage")
    assert machine_lines(tmp_path / "absent") == ("127.0.0.1 localhost",)
    file = HostsFile(tmp_path / "hosts", machine_lines(own))
    file.show([A], now=0)
    file.show([], now=1)
    assert names(tmp_path / "hosts")["storage"] == ["10.1.2.3"]
    file.close()
    assert socket.gethostbyname("localhost") == "127.0.0.1"
