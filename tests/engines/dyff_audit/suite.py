"""dyff-audit's published tests, unmodified, and a report by a rubric of its own.

`python -m tests.engines.dyff_audit.suite` runs them. They ask a platform of this machine, whose
methods run in the environment of `steelyard runners install dyff-audit`. The tests are only in the source
distribution, which is downloaded by its digest; nothing of it is kept here.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from steelyard.client import Client
from steelyard.local.detached import start_detached, stop
from steelyard.local.state import Ready, StateDir
from tests.engines.build import Missing
from tests.engines.dyff_audit.own_rubric import check_report
from tests.engines.locked import environment
from tests.engines.model_servers.prepared import runner, surroundings

HERE = Path(__file__).parent
KNOWN = HERE / "known.yaml"
"""Number of tests that pass, those that fail, and those that are left out, with the reason of each."""
OPTIONS = ("--test_remote", "--skip_artifacts", "--skip_huggingface")
"""Left out: what needs a registry of containers, and a model of Hugging Face, which not every network reaches."""
SECONDS = 1200
"""Time for all tests, which take some four minutes on a machine that has other work."""
STUCK_SECONDS = 300
"""Time after which a test that still runs is named, with what it waits for."""
CHOICE = "STEELYARD_DYFF_AUDIT"
"""Name of the variable that leaves the suite out where it is `no`: it takes five minutes."""


def run() -> int:
    """Return the exit status. Raises Missing where an environment, or the tests, cannot be had."""
    if os.environ.get(CHOICE) == "no":
        raise Missing(f"{CHOICE} is no")
    known = yaml.safe_load(KNOWN.read_text())
    with tempfile.TemporaryDirectory(prefix="steelyard-audit-") as scratch:
        folder = Path(scratch)
        python = environment("dyff-audit", HERE / "tests.txt")
        published = download(python, folder)
        with surroundings(folder):
            runner("dyff-audit")
            state = StateDir(folder / "state")
            ready = start_detached(state.path)
            try:
                with Client(ready.api, ready.token) as client:
                    check_report(client, folder / "rows")
                outcomes = run_tests(python, published, ready, known["leave_out"])
            finally:
                stop(state.path)
    faults = differences(outcomes, known["fail"], known["pass"])
    print("\n".join(faults) or "all tests end as they should")
    return 1 if faults else 0


def download(python: Path, folder: Path) -> Path:
    """Return the folder of the source distribution, unpacked."""
    options = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes", "-q")
    command = [str(python), "-m", "pip", "download", *options, "-r", str(HERE / "source.txt")]
    command += ["-d", str(folder)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    if done.returncode:
        raise Missing(f"dyff-audit's tests cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder)
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


def run_tests(python: Path, published: Path, ready: Ready, leave_out: Iterable[str]) -> Mapping[str, str]:
    """Return `passed`, `skipped` or `failed` by the test's name. It prints what pytest says.

    Raises TimeoutExpired where the tests do not end.
    """
    results = published / "results.xml"
    # -P: the package is imported from the environment, and not from the folder of its source.
    command = [str(python), "-P", "-m", "pytest", "-q", "--tb=line", "--durations=5", *OPTIONS]
    command += ["-o", f"faulthandler_timeout={STUCK_SECONDS}", f"--junitxml={results}", "tests"]
    command += [word for name in leave_out for word in ("--deselect", name)]
    assert ready.api
    assert ready.token
    platform = {"DYFF_API_ENDPOINT": ready.api, "DYFF_API_TOKEN": ready.token}
    subprocess.run(
        command,
        cwd=published,
        env=os.environ | platform,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        check=False,
    )
    return {
        f"{case.get('classname', '').removeprefix('tests.')}::{case.get('name')}": outcome(case)
        for case in ET.parse(results).iter("testcase")
    }


def outcome(case: ET.Element) -> str:
    words = {child.tag for child in case}
    return "failed" if words & {"failure", "error"} else "skipped" if "skipped" in words else "passed"


def differences(outcomes: Mapping[str, str], known: Mapping[str, str], passed: int) -> Sequence[str]:
    """Return a line for each test that does not end as it should; a test that is skipped must not be missed."""
    failed = {name for name, word in outcomes.items() if word == "failed"}
    lines = [f"{name} fails" for name in sorted(failed - known.keys())]
    lines += [
        f"{name} is {outcomes.get(name, 'not there')}, and should fail: {known[name]}"
        for name in sorted(known.keys() - failed)
    ]
    now = list(outcomes.values()).count("passed")
    return [*lines, f"{now} tests pass, and {passed} should"] if now != passed else lines


if __name__ == "__main__":
    try:
        sys.exit(run())
    except Missing as missing:
        sys.exit(f"{missing}: the tests of dyff-audit cannot run")
