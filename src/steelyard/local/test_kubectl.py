"""The launcher's kubectl: what it reads from its command line and from answers."""

import pytest

from steelyard.local.kubectl import exit_status, parse_exec


def test_the_command_line_of_the_jobs_own_script() -> None:
    plain = ["exec", "job-worker-0", "--", "/bin/sh", "-c", "orted -x"]
    assert parse_exec(plain) == ("job-worker-0", "", ["/bin/sh", "-c", "orted -x"])
    chosen = ["exec", "job-worker-0", "--container", "mpi", "--", "/bin/sh", "-c", "--"]
    assert parse_exec(chosen) == ("job-worker-0", "mpi", ["/bin/sh", "-c", "--"])


@pytest.mark.parametrize(
    "words", [["get", "pods"], ["exec", "a"], ["exec", "a", "b", "--", "c"], ["exec", "a", "--"]]
)
def test_nothing_else_is_served(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="usage: kubectl exec"):
        parse_exec(words)


def test_how_a_command_ended() -> None:
    assert exit_status(b'{"status":"Success"}') == 0
    failure = b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}'
    assert exit_status(failure) == 7
    assert exit_status(b'{"status":"Failure","message":"no such container"}') == 1
