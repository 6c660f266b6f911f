"""Checks of the machine before a start: file systems, disks, ports."""

import os
import socket
from pathlib import Path

import pytest

from steelyard.local import machine
from steelyard_common import ports
from steelyard_common.errors import SteelyardError, UsageError
from steelyard_common.lock import FileLock, LockHeld, is_held
from steelyard_local_kubernetes.network import FIRST, LAST, Network, claim

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /home rw - nfs4 server:/home rw
31 30 0:41 / /home/me/local\\040disk rw - xfs /dev/vdb rw
32 22 0:42 / /mnt/ssh rw - fuse.sshfs me@there rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/x", "ext4"),
        ("/home/me/x", "nfs4"),
        ("/home/me/local disk/x", "xfs"),
        ("/homely", "ext4"),
        ("/mnt/ssh/x", "fuse.sshfs"),
    ],
)
def test_a_folder_is_on_its_nearest_mount(folder: str, kind: str) -> None:
    assert machine.file_system(Path(folder), MOUNTS) == kind


def test_a_network_file_system_is_refused() -> None:
    with pytest.raises(UsageError, match=r"network file system \(nfs4\)"):
        machine.check_file_system(Path("/home/me/state"), MOUNTS)
    machine.check_file_system(Path("/var/state"), MOUNTS)


def test_a_file_of_the_settings_on_a_network_file_system_is_refused() -> None:
    with pytest.raises(UsageError, match=r"settings: view: /home/me: lies on a network file system \(nfs4\)"):
        machine.check_engines({"log": "sqlite:/var/log.db", "view": "sqlite:/home/me/view.db"}, MOUNTS)
    machine.check_engines({"log": "sqlite:/var/log.db", "view": "memory:"}, MOUNTS)


def test_disks_are_known_by_one_folder_each(tmp_path: Path) -> None:
    state, other = tmp_path / "state", Path("/dev")
    state.mkdir()
    addresses = [
        f"sqlite:{state}/log.db",
        f"file://{tmp_path}/not yet/there",
        f"file://{other}/new",
        "s3://away",
    ]
    assert machine.disk_folders(state, addresses) == [state, other]


def test_another_system_is_refused() -> None:
    with pytest.raises(UsageError, match="Linux only; this is darwin"):
        machine.check_machine("darwin")
    machine.check_machine("linux")


def test_a_port_in_use_is_not_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not ports.port_is_free(taken.getsockname()[1])
    assert ports.port_is_free(ports.free_port())


def test_a_port_that_is_kept_is_none_that_the_kernel_gives_away(tmp_path: Path) -> None:
    ephemeral = tmp_path / "ip_local_port_range"
    ephemeral.write_text("20003\t60999\n")
    for _ in range(50):
        with machine.reserve_lasting_port(ephemeral) as reserved:
            port = machine.socket_port(reserved)
            # Where others have all three, it is any port.
            assert port in (20000, 20001, 20002) or not any(map(ports.port_is_free, (20000, 20001, 20002)))


@pytest.mark.parametrize("content", ["1024\t60999\n", "", "many"])
def test_without_ports_below_the_ephemeral_ones_any_free_port_is_taken(tmp_path: Path, content: str) -> None:
    ephemeral = tmp_path / "ip_local_port_range"
    ephemeral.write_text(content)
    for path in (ephemeral, tmp_path / "missing"):
        with machine.reserve_lasting_port(path) as reserved:
            assert machine.socket_port(reserved) > 0


def test_a_reserved_port_is_for_those_who_know_it(tmp_path: Path) -> None:
    """A part of the platform listens on it, again after it was killed; nobody else chooses it."""
    with machine.reserve_lasting_port() as reserved:
        port = machine.socket_port(reserved)
        ephemeral = tmp_path / "ip_local_port_range"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(machine, "LEAST_PORT", port)
            ephemeral.write_text(f"{port + 1}\t60999\n")
            with machine.reserve_lasting_port(ephemeral) as other:
                assert machine.socket_port(other) != port
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)) as listening:
                with socket.create_connection(("127.0.0.1", port)), listening.accept()[0]:
                    pass  # closed first by us: the port has a connection that is ending
                assert machine.reserve_port(port) is None
    again = machine.reserve_port(port)
    assert again is not None
    again.close()


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    path = tmp_path / "up.lock"
    assert not is_held(path)
    with FileLock(path):
        assert is_held(path)
        with pytest.raises(LockHeld):
            FileLock(path).acquire()
    assert not is_held(path)


def test_folders_get_networks_of_their_own_and_keep_them(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    first, lock = claim(one, 0, tmp_path / "claims")
    second, other = claim(two, first.number, tmp_path / "claims")
    assert first != second
    lock.release()
    other.release()
    again, lock = claim(one, first.number, tmp_path / "claims")
    assert again == first
    lock.release()


def test_a_killed_ups_network_is_left_to_its_pods(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    first, lock = claim(one, 0, tmp_path / "claims")
    lock.release()  # as the kernel does it for a dead holder
    second, lock = claim(two, first.number, tmp_path / "claims")
    lock.release()
    assert second != first
    one.rmdir()
    third, lock = claim(tmp_path / "three", first.number, tmp_path / "claims")
    lock.release()
    assert third == first


def test_a_network_that_was_just_used_is_not_the_next_folders(tmp_path: Path) -> None:
    first, lock = claim(tmp_path / "gone", 0, tmp_path / "claims")
    lock.release()
    second, lock = claim(tmp_path / "next", 0, tmp_path / "claims")
    lock.release()
    assert second != first


def test_when_no_network_is_left_up_says_so(tmp_path: Path) -> None:
    held = [claim(tmp_path / str(n), 0, tmp_path / "claims")[1] for n in range(FIRST, LAST + 1)]
    with pytest.raises(SteelyardError, match="are in use"):
        claim(tmp_path / "one more", 0, tmp_path / "claims")
    for lock in held:
        lock.release()


def test_pods_and_services_share_a_network_without_meeting() -> None:
    assert (Network(77).pods, Network(77).services) == ("127.77.0.0/17", "127.77.128.0/17")


@pytest.mark.root
def test_claims_of_another_user_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "claims"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    with pytest.raises(SteelyardError, match="another user"):
        claim(tmp_path, 0, folder)
