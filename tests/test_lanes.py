"""Tests of running the engines' suites side by side."""

import sys
from pathlib import Path

import pytest

from tests.engines import __main__ as engines
from tests.engines.build import Missing
from tests.engines.lanes import LEFT_OUT, Result, Summary, run_side_by_side


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def _meets(own: Path, other: Path) -> list[str]:
    """Return a command that ends once another one runs at the same time."""
    code = (
        "import pathlib, sys, time\n"
        f"pathlib.Path({str(own)!r}).touch()\n"
        "end = time.monotonic() + 60\n"
        f"while not pathlib.Path({str(other)!r}).exists():\n"
        "    assert time.monotonic() < end, 'the other one did not begin'\n"
        "    time.sleep(0.01)\n"
    )
    return _python(code)


def _by_name(commands: dict[str, list[str]], at_once: int) -> dict[str, Result]:
    return {result.name: result for result in run_side_by_side(commands, at_once)}


def test_two_suites_run_at_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"

    results = _by_name({"one": _meets(one, other), "other": _meets(other, one)}, 2)

    assert {name: result.status for name, result in results.items()} == {"one": 0, "other": 0}


def test_no_more_suites_run_at_once_than_asked_for(tmp_path: Path) -> None:
    code = (
        "import pathlib, time\n"
        f"lock = pathlib.Path({str(tmp_path / 'runs')!r})\n"
        "lock.mkdir()\n"  # fails while another one runs
        "time.sleep(0.1)\n"
        "lock.rmdir()\n"
    )

    results = _by_name({str(number): _python(code) for number in range(3)}, 1)

    assert [results[str(number)].status for number in range(3)] == [0, 0, 0]


def test_a_result_has_status_reason_and_all_that_was_printed() -> None:
    command = _python(f"import sys; print('before'); print('no Go', file=sys.stderr); sys.exit({LEFT_OUT})")

    result = _by_name({"suite": command}, 2)["suite"]

    assert (result.status, result.reason) == (LEFT_OUT, "no Go")
    assert {"before", "no Go"} == set(result.output.split("\n")) - {""}


def test_suites_that_run_are_ended_when_the_client_is_gone(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = (
        "import os, pathlib, time\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(pid)!r}).exists():\n    time.sleep(0.01)\n"
    results = run_side_by_side({"endless": _python(code), "short": _python(wait)}, 2)
    assert next(results).name == "short"

    results.close()

    assert not Path(f"/proc/{pid.read_text()}").exists()


def test_a_summary_names_what_ran_and_what_was_left_out() -> None:
    summary = Summary(needed={"Kafka": "a JDK and Go"})
    for name, status, output in (
        ("S3", 0, "5 passed"),
        ("Kafka (brokers)", LEFT_OUT, "mvn is not installed"),
        ("Chromium", LEFT_OUT, "Chromium is not installed"),
        ("Ray", 1, "1 failed"),
    ):
        summary.add(Result(name, status, 1.0, output))

    assert str(summary).splitlines() == [
        "ran: S3",
        "left out: Chromium: Chromium is not installed",
        "failed: Kafka (brokers): left out, though a JDK and Go are there: mvn is not installed",
        "failed: Ray",
        "1 passed, 2 failed, 1 skipped",
    ]


PLATFORM = {"Kafka", "PostgreSQL", "S3", "Google Cloud Storage", "MongoDB"}
NODE = {"Ray's real operators", "Artifacts on a real node", "Chart on a real node"}


@pytest.mark.parametrize(
    ("programs", "rights", "expected"),
    [
        ((), False, set()),
        ((), True, set()),
        (("java",), True, set()),
        (("go",), False, set()),
        (("go",), True, NODE),
        (("java", "go"), False, PLATFORM),
        (("java", "go"), True, PLATFORM | NODE | {"Network namespaces"}),
        (("node",), False, set()),
        (("node", "npm"), False, {"Azure Blob Storage"}),
    ],
)
def test_a_suite_is_needed_where_its_toolchain_is_there(
    programs: tuple[str, ...],
    rights: bool,
    expected: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for program in programs:
        (tmp_path / program).write_text("")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    def require() -> None:
        if not rights:
            raise Missing("no rights")

    monkeypatch.setattr(engines, "require_networks", require)
    monkeypatch.setattr(engines, "require_namespaces", require)

    assert engines.needed().keys() == expected


def test_every_needed_suite_is_one_of_the_suites() -> None:
    for start in (*engines.ENGINES, engines.NAMESPACES, engines.AZURE, engines.OPERATORS, engines.ARTIFACTS):
        assert any(name.startswith(start) for name in engines.SUITES), start
