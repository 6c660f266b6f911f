"""Worker of `make planted`: tries bugs in a worktree of its own, each in a process forked from a warm interpreter.

    python worker.py REPOSITORY COMMIT FOLDER

The runner sends one request a line and reads one answer a line, both JSON. What tests import from elsewhere is imported
once, before the first fork; what this repository holds never is, so that every fork reads it with its bug. When the
runner ends, however it ends, the worker's input ends: then it kills the tests under way and removes its worktree.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

MARK = "PLANTED_IN"
THIRD_PARTY = (
    "_hypothesis_pytestplugin", "aiohttp", "aiosqlite", "anyio", "cryptography.hazmat.primitives.asymmetric.ed25519",
    "cryptography.hazmat.primitives.serialization", "cryptography.x509", "http.server", "httpx", "hypothesis.stateful",
    "jsonschema", "multiprocessing.spawn", "numpy", "numpy.testing", "prometheus_client", "pyarrow.compute",
    "pyarrow.parquet", "pydantic", "pydantic_settings", "pytest", "pytest_asyncio.plugin", "pytest_timeout", "rich",
    "starlette.applications", "starlette.testclient", "typer.testing", "unittest.mock", "uvicorn", "yaml",
    "_pytest.assertion.rewrite", "_pytest.capture", "_pytest.doctest", "_pytest.faulthandler", "_pytest.fixtures",
    "_pytest.junitxml", "_pytest.logging", "_pytest.monkeypatch", "_pytest.pytester", "_pytest.python",
    "_pytest.terminal", "_pytest.tmpdir", "_pytest.unraisableexception", "_pytest.warnings",
)  # fmt: skip
"""Modules that tests import from elsewhere. One that is not installed is left out: it only saves time."""
FOLDERS = ("src", "packages", "tests")
PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
"""pytest's plugins that the tests need, given by name so that pytest searches no installed package for others."""
LONGEST = 600.0
"""Seconds that the tests of one bug may take."""


@dataclass(frozen=True)
class Outcome:
    """Result of the tests of one request."""

    code: int
    """pytest's exit code; -1 if the tests did not end in time."""
    failed: list[str] = field(default_factory=list)
    """Node ids of the tests that failed."""
    processor_seconds: float = 0.0
    output: str = ""
    """The end of what pytest wrote, if no test failed and none passed."""


class RunnerEndedError(Exception):
    """The runner has closed the worker's input."""


def git(*arguments: str, cwd: Path) -> None:
    subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, check=True)


@contextlib.contextmanager
def worktree(repository: Path, commit: str, folder: Path) -> Iterator[Path]:
    """Check a commit out in `folder`, and remove that worktree and the folder in the end."""
    tree = folder / "tree"
    try:
        git("worktree", "add", "--detach", "-f", str(tree), commit, cwd=repository)
        yield tree
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            git("worktree", "remove", "--force", str(tree), cwd=repository)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def planted(file: Path, source: str, modified: int) -> Iterator[None]:
    """Give a file other content while the context lasts.

    Python takes compiled code for current when the source's size and whole seconds of modification are as they were.
    Two bugs of one size, planted within one second, would be confused: each gets a time of its own.
    """
    before, times = file.read_bytes(), file.stat()
    try:
        file.write_text(source)
        os.utime(file, (modified, modified))
        yield
    finally:
        file.write_bytes(before)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def end_leftovers(tree: Path) -> None:
    """End the processes that a test of `tree` has left: a planted bug may be that a process does not end."""
    marked = f"{MARK}={tree}".encode()
    for folder in Path("/proc").iterdir():
        try:
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            if marked in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            continue  # ended meanwhile, or another user's


class FailureRecorder:
    """pytest plugin that notes which tests failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)


def run_pytest(arguments: Sequence[str], result: Path, output: Path) -> None:
    """Run pytest in this process, which was forked for it, and end the process."""
    code = 3
    try:
        os.setsid()
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(written, 1)
        os.dup2(written, 2)
        import pytest

        recorder = FailureRecorder()
        plugins = [sys.modules[name] for name in PLUGINS if name in sys.modules]
        code = int(pytest.main(list(arguments), plugins=[*plugins, recorder]))
        result.write_text(json.dumps(recorder.failed))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - a fork must never return into the worker, whatever pytest raises
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def wait_for(process: int, requests: int) -> tuple[int, float]:
    """Return the exit code of a forked process and its processor seconds, those of its own processes included.

    Raises RunnerEndedError once the runner has closed its end of `requests`, from which it sends nothing meanwhile.
    """
    ends = time.monotonic() + LONGEST
    exited = os.pidfd_open(process)
    ended = in_time = False
    try:
        ready, _, _ = select.select([exited, requests], [], [], max(0.0, ends - time.monotonic()))
        ended, in_time = requests in ready, exited in ready
    finally:
        os.close(exited)
        if not in_time:
            os.kill(process, signal.SIGKILL)
        _, status, usage = os.wait4(process, 0)
    if ended and not in_time:
        raise RunnerEndedError
    return os.waitstatus_to_exitcode(status) if in_time else -1, usage.ru_utime + usage.ru_stime


def run_tests(tests: Sequence[str], options: Sequence[str], tree: Path, requests: int) -> Outcome:
    """Run tests in a forked process and tell what became of them."""
    result, output = tree.parent / "failed.json", tree.parent / "output.txt"
    result.unlink(missing_ok=True)
    arguments = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--disable-plugin-autoload",
        f"--basetemp={tree.parent / 'base'}",
    ]
    process = os.fork()
    if process == 0:
        run_pytest([*arguments, *options, *tests], result, output)
    try:
        code, processor_seconds = wait_for(process, requests)
    finally:
        end_leftovers(tree)
        git("checkout", "-q", "--", ".", cwd=tree)
        git("clean", "-qfd", "--", *(name for name in FOLDERS if (tree / name).exists()), cwd=tree)
    failed = json.loads(result.read_text()) if result.exists() else []
    text = "" if code in (0, 1) else output.read_text(errors="replace")[-600:]
    return Outcome(code, failed, round(processor_seconds, 2), text)


def read_requests(requests: int) -> Iterator[dict[str, Any]]:
    """Yield the runner's requests until it closes its end; nothing is read ahead, so that `select` sees the rest."""
    line = b""
    while piece := os.read(requests, 65536):
        line += piece
        if line.endswith(b"\n"):
            yield json.loads(line)
            line = b""


def import_third_party() -> None:
    for name in THIRD_PARTY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # forked processes share what is never collected


def main() -> None:
    repository, commit, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    requests, answers = os.dup(0), os.dup(1)
    with contextlib.suppress(RunnerEndedError), worktree(repository, commit, folder) as tree:
        sources = [tree / "src", *sorted(tree.glob("packages/*/src"))]
        own = {repository / source.relative_to(tree) for source in sources}
        os.environ |= {
            "PYTHONPATH": os.pathsep.join(map(str, sources)),
            MARK: str(tree),
            "TMPDIR": str(folder / "tmp"),
        }
        (folder / "tmp").mkdir()
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False
        os.chdir(tree)
        # As `python -m pytest` has it: the worktree comes before the place where this repository is installed.
        sys.path[:] = [
            "",
            *map(str, sources),
            *(path for path in sys.path[1:] if Path(path) not in own),
        ]
        import_third_party()
        modified = count(int(time.time()) + 1)
        for request in read_requests(requests):
            if "file" in request:
                with planted(tree / request["file"], request["source"], next(modified)):
                    outcome = run_tests(request["tests"], ["-x"], tree, requests)
            else:
                outcome = run_tests(request["tests"], [], tree, requests)
            os.write(answers, json.dumps(asdict(outcome)).encode() + b"\n")


if __name__ == "__main__":
    main()
