"""Identities of processes in elections: unique per start, and the dead of this machine are known to be dead."""

import subprocess
import sys

import pytest

from steelyard.local.identity import has_ended, process_identity

SAY = "from steelyard.local.identity import process_identity; print(process_identity(), flush=True); input()"


def start() -> tuple["subprocess.Popen[str]", str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    return process, process.stdout.readline().strip()


def end(process: "subprocess.Popen[str]") -> None:
    process.communicate("\n")


def test_two_processes_differ_and_one_that_has_ended_is_known_to_have() -> None:
    process, identity = start()
    try:
        assert identity != process_identity()
        assert not has_ended(identity)
    finally:
        end(process)
    assert has_ended(identity)


def test_a_process_knows_itself_to_run() -> None:
    assert process_identity() == process_identity()
    assert not has_ended(process_identity())


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param("", id="nobody"),
        pytest.param("steelyard-operator-7d9c", id="an identity of another form"),
        pytest.param("localhost-0", id="one that processes of a machine once shared"),
        pytest.param("host_1-1-00000000-5", id="a container of another machine"),
    ],
)
def test_of_others_nothing_is_known(holder: str) -> None:
    assert not has_ended(holder)


def test_a_process_of_an_earlier_boot_may_be_one_of_another_machine() -> None:
    host, _, rest = process_identity().partition("_")
    namespace, pid, boot, ticks = rest.split("-")
    other = f"{host}_{namespace}-{pid}-{'0' * len(boot)}-{ticks}"
    assert not has_ended(other)


def test_a_process_number_that_is_used_again_is_another_process() -> None:
    identity = process_identity()
    earlier = identity.rpartition("-")[0] + "-1"
    assert has_ended(earlier)
