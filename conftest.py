"""Settings of all tests: the examples of property tests, how often collected modules are read for garbage, the
signals of commands that tests start, how workers divide the files, which tests a machine cannot run, that no file of
unit tests leaves a thread behind, and that compiled files are kept. Unit tests have temporary files in memory, where
there is room, and a process that each file gives back as it was.
"""

import functools
import gc
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

# Kept whatever the caller's environment says, as by `make test`: without them each worker compiles all tests, and each
# process that a test starts all that it imports.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

GENERATIONS = (100_000, 50, 50)

# A property test draws the same examples at every run, so that a change is judged by itself; `make soak` draws others,
# and more of them.
# How long an example takes says nothing on a busy machine.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNTIMED, derandomize=True, max_examples=25)
settings.register_profile(
    "few", UNTIMED, derandomize=True, max_examples=10
)  # where what is tested is a version of Python
settings.register_profile("random", UNTIMED, max_examples=300)
settings.load_profile(os.environ.get("STEELYARD_EXAMPLES", "repeatable"))


SHARE = pytest.StashKey[frozenset[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which the workers of one run read a part of the files each, not all of them."""
    text = "with -n N --dist each: every worker collects and runs every Nth file"
    parser.addoption("--divide-files", action="store_true", help=text)


def share_of_files(arguments: list[str], worker: dict[str, object]) -> frozenset[Path]:
    """Return the files of one worker: every Nth in the order of the tree.

    Neighbours are alike, so that the shares of a folder's slow files are alike too.
    """
    files = sorted(file for folder in arguments for file in Path(folder).resolve().rglob("test_*.py"))
    number = int(str(worker["workerid"]).removeprefix("gw"))
    return frozenset(files[number :: int(str(worker["workercount"]))])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of other workers."""
    worker = getattr(config, "workerinput", None)
    if worker is None or not config.getoption("--divide-files") or collection_path.is_dir():
        return None
    if SHARE not in config.stash:
        config.stash[SHARE] = share_of_files(config.args, worker)
    return True if collection_path not in config.stash[SHARE] else None


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Log what the runner of a divided run shows: of a test that has passed one report, instead of three and the news
    that it begins and ends, each of which is a message to the runner.
    """
    if not hasattr(item.config, "workerinput") or not item.config.getoption("--divide-files"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.outcome != "passed" or report.when == "call":
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what this user of this machine has no right to, with the reason."""
    for name in ("root", "mounts", "pids"):
        if item.get_closest_marker(name) is None:
            continue
        from steelyard_local_kubernetes.kubelet.testing import missing_right

        if reason := missing_right(name):
            pytest.skip(reason)


INTEGRATION = Path(__file__).parent / "tests"
MEMORY = Path("/dev/shm")
NEEDED_BYTES = 2 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Take Ctrl-C again: a shell that starts the suite in the background has it ignored, also by all it starts.

    Temporary files of unit tests lie in memory: a third of the suite's time was spent waiting for a disk to confirm
    writes. No unit test sees the difference, since none turns the power off. Integration tests stay on the disk.
    """
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    if "PYTEST_DEBUG_TEMPROOT" in os.environ:
        return
    unit_only = all(_holds_unit_tests(Path(arg.split("::")[0]).resolve()) for arg in config.args)
    if unit_only and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > NEEDED_BYTES:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)


def _holds_unit_tests(path: Path) -> bool:
    root = INTEGRATION.parent
    return any(path.is_relative_to(root / folder) for folder in ("src", "packages", "deploy"))


@pytest.fixture(scope="module", autouse=True)
def _environment_and_signals(request: pytest.FixtureRequest) -> Iterator[None]:
    """Take back what a program changes that a unit test calls: the next file would have a step's folder of Hugging
    Face, and would hear no SIGTERM after a step, whose closed uvloop has it.
    """
    variables, handler = dict(os.environ), signal.getsignal(signal.SIGTERM)
    yield
    if INTEGRATION in request.path.parents:
        return
    signal.signal(signal.SIGTERM, handler)
    for name in {*os.environ, *variables} - {"PYTEST_CURRENT_TEST"}:
        if name not in variables:
            del os.environ[name]
        elif os.environ.get(name) != variables[name]:
            os.environ[name] = variables[name]


THREAD_SECONDS = 10.0
"""Longest wait for the threads of a file that has ended."""
KEPT_THREADS = frozenset({"tqdm_monitor"})  # one for the process, which the library starts with its first bar
THREADS = pytest.StashKey[set[threading.Thread]]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Fail where a file's threads go on after it and its fixtures: what they do would be seen in another file's test,
    which may then fail without a reason of its own. The files of `tests/` share servers that run until the end.
    """
    yield
    if INTEGRATION in item.path.parents or (nextitem is not None and nextitem.path == item.path):
        return
    if sys.version_info >= (3, 13):
        gc.collect()  # since 3.13 it tells of databases that nothing closed: the file that left them fails
    ours, deadline = item.config.stash[THREADS], time.monotonic() + THREAD_SECONDS
    for thread in set(threading.enumerate()) - ours:
        if thread.name not in KEPT_THREADS:
            thread.join(max(0.0, deadline - time.monotonic()))
    left = {thread for thread in set(threading.enumerate()) - ours if thread.name not in KEPT_THREADS}
    ours |= left  # one file is charged with it
    if left:
        names = ", ".join(sorted(thread.name for thread in left))
        raise RuntimeError(f"threads that tests of {item.path.name} started still run: {names}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for no garbage during collection: an eighth of its time was spent there, and nearly all is kept."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Freeze what was imported, which saves a sixth of the unit suite's processor time, and note the threads that are
    no test's. Commands are made once for each command line, not at every call of it: that took 80 ms of processor time.
    """
    if (testing := sys.modules.get("typer.testing")) is not None:
        testing._get_command = functools.cache(testing._get_command)  # type: ignore[attr-defined]
    session.config.stash[THREADS] = set(threading.enumerate())
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Read for garbage once: pytest does so five times as it ends, which costs seconds where much is alive."""
    gc.collect()
    gc.freeze()
