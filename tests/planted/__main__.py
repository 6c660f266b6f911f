"""`make planted`: plants each bug of this folder in a scratch worktree and expects one of its tests to fail.

Bugs are tried side by side, each worker in a worktree of its own that holds the files as they are now (files that git
does not know are left out). The tests of one file run without a bug before its bugs are tried: one that fails then
proves nothing. Bugs that unit tests find come before those that integration tests find. A bug whose code is no longer
there, or whose tests pass in spite of it, is a failure. `--check` only says whether each can still be planted, which
takes seconds.
"""

import argparse
import ast
import fnmatch
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from tests.planted.bug import Bug, DoesNotApplyError, read
from tests.planted.worker import Outcome

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def obstacle(bug: Bug, tree: Path) -> str:
    """Return why a bug cannot be planted in a tree; empty if it can."""
    missing = [test for test in bug.tests if not has_test(tree, test)]
    if missing:
        return f"there is no test {' '.join(missing)}"
    try:
        ast.parse(bug.apply((tree / bug.file).read_text()))
    except (OSError, DoesNotApplyError, SyntaxError) as error:
        return f"does not apply: {error}"
    return "changes nothing" if bug.changes_nothing else ""


def has_test(tree: Path, test: str) -> bool:
    """Return whether a test's file defines the function that the test's node id names."""
    path, *names = test.split("[", maxsplit=1)[0].split("::")
    file = tree / path
    if not file.is_file() or not names:
        return file.is_file()
    source = file.read_text()
    return f"def {names[-1]}(" in source or f"\n{names[-1]} = " in source


def why_it_survives(bug: Bug, outcome: Outcome, failing: Sequence[str]) -> str:
    """Say what is wrong with the outcome of a bug's tests: empty when one fails because of the bug.

    `failing` are the node ids of tests that fail without any bug.
    """
    broken = [test for test in bug.tests if any(covers(test, node) for node in failing)]
    if broken:
        return f"{' '.join(broken)} fails without the bug"
    if outcome.code == 0:
        return f"survives: {' '.join(bug.tests)} passed in spite of it"
    if outcome.code == -1:
        return "its tests did not end in time"
    if outcome.code != 1:
        return f"pytest exited {outcome.code}: {outcome.output}"
    return ""


def covers(test: str, node: str) -> bool:
    """Return whether a test that a bug names, perhaps a whole file, includes the test with a node id."""
    return node == test or node.startswith((f"{test}[", f"{test}::"))


class Worker:
    """A process that runs tests in its own worktree; see worker.py. It cleans up when its input is closed."""

    def __init__(self, commit: str) -> None:
        folder = tempfile.mkdtemp(prefix="planted-")
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), str(ROOT), commit, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C ends the runner alone, so that the worker lives to clean up
        )

    def run(self, tests: Sequence[str], file: str = "", source: str = "") -> Outcome:
        """Run tests, with other content in one file if a file is given."""
        request: dict[str, object] = {"tests": list(tests)}
        if file:
            request |= {"file": file, "source": source}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("a worker has ended; see its traceback above")
        return Outcome(**json.loads(answer))

    def close(self) -> None:
        """End the tests under way and wait until the worktree is gone."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Workers:
    """Workers; each runs one request at a time."""

    def __init__(self, commit: str, side_by_side: int) -> None:
        self._all = [Worker(commit) for _ in range(side_by_side)]
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._all:
            self._free.put(worker)
        self._threads = ThreadPoolExecutor(side_by_side)

    def try_bugs(self, bugs: Sequence[Bug]) -> Iterator[tuple[Bug, str, float]]:
        """Try bugs: yield each, why it survives (empty if it is found), and its processor seconds, when known."""
        groups: dict[str, list[Bug]] = {}
        for bug in bugs:
            groups.setdefault(bug.tests[0].split("::")[0], []).append(bug)
        for future in as_completed(
            [self._threads.submit(self._try_group, group) for group in groups.values()]
        ):
            yield from future.result()

    def _try_group(self, bugs: Sequence[Bug]) -> list[tuple[Bug, str, float]]:
        """Run the tests of some bugs without a bug, then each bug's with it."""
        worker = self._free.get()
        try:
            tests = dict.fromkeys(test for bug in bugs for test in bug.tests)
            failing = worker.run(list(tests)).failed
            results = []
            for bug in bugs:
                source = bug.apply((ROOT / bug.file).read_text())
                outcome = worker.run(bug.tests, str(bug.file), source)
                results.append((bug, why_it_survives(bug, outcome, failing), outcome.processor_seconds))
            return results
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """End what runs and wait until no worktree is left."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._all:
            worker.close()


def check(bugs: Sequence[Bug]) -> int:
    """Print the bugs that can no longer be planted, and return the exit code."""
    obstacles = {bug.name: reason for bug in bugs if (reason := obstacle(bug, ROOT))}
    for name, reason in obstacles.items():
        print(f"{name}: {reason}")
    print(f"{len(bugs) - len(obstacles)} of {len(bugs)} planted bugs apply")
    return 1 if obstacles else 0


def select(bugs: Sequence[Bug], patterns: Sequence[str], changed: Sequence[str] | None) -> list[Bug]:
    """Return the bugs whose name, file or test matches a pattern, and whose files changed.

    No pattern matches all; `changed` is None where it does not matter which files changed.
    """

    def wanted(bug: Bug) -> bool:
        paths = [str(bug.file), *(test.split("::")[0] for test in bug.tests)]
        if changed is not None and not set(paths) & set(changed):
            return False
        texts = [bug.name, *paths, *bug.tests]
        return not patterns or any(fnmatch.fnmatch(text, pattern) for text in texts for pattern in patterns)

    return [bug for bug in bugs if wanted(bug)]


def is_integration(bug: Bug) -> bool:
    return any(not test.startswith(("src/", "packages/")) for test in bug.tests)


def duration(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def progress(done: int, total: int, failures: int, elapsed: float) -> str:
    """Return how far the run is: counts, failures, and the time that the rest will take at this speed."""
    rest = elapsed / done * (total - done)
    return f"[{done}/{total}, {failures} not found, {duration(rest)} left]"


def run(bugs: Sequence[Bug], side_by_side: int) -> int:
    """Try all bugs, print progress and a summary, failures first, and return the exit code."""
    began = time.monotonic()
    failures = {bug.name: reason for bug in bugs if (reason := obstacle(bug, ROOT))}
    bugs = [bug for bug in sorted(bugs, key=is_integration) if bug.name not in failures]
    seconds: dict[str, float] = {}
    # A commit of the files as they are, on no branch; git wants an author even where nobody has set one.
    author = ("-c", "user.name=planted", "-c", "user.email=planted@localhost")
    workers = Workers(git(*author, "stash", "create") or "HEAD", side_by_side)
    try:
        for number, (bug, reason, processor_seconds) in enumerate(workers.try_bugs(bugs), start=1):
            seconds[bug.name] = processor_seconds
            if reason:
                failures[bug.name] = reason
            how_far = progress(number, len(bugs), len(failures), time.monotonic() - began)
            print(f"{how_far} {bug.name}: {reason or 'found'} ({processor_seconds:.1f} s)", flush=True)
    finally:
        workers.close()
    print_summary(bugs, failures, seconds, time.monotonic() - began)
    return 1 if failures or not bugs else 0


def print_summary(
    bugs: Sequence[Bug], failures: dict[str, str], seconds: dict[str, float], elapsed: float
) -> None:
    print("\nNot found:" if failures else "")
    for name, reason in sorted(failures.items()):
        print(f"  {name}: {reason}")
    for kind, integration in (("unit", False), ("integration", True)):
        times = sorted(seconds[bug.name] for bug in bugs if is_integration(bug) is integration)
        if times:
            print(
                f"{len(times)} bugs for {kind} tests: {sum(times):.0f} s of processor time, "
                f"median {times[len(times) // 2]:.1f} s, longest {times[-1]:.1f} s"
            )
    total = len(set(failures) | set(seconds))
    print(f"{total - len(failures)} of {total} planted bugs were found in {duration(elapsed)} minutes")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("bugs", nargs="*", help="names of bugs in this folder; all, if none is given")
    parser.add_argument("-n", type=int, default=2, metavar="COUNT", help="bugs tried side by side (2)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only bugs whose name, file or test matches, as in 'kube-*' or 'packages/kube/*'; may be repeated",
    )
    parser.add_argument(
        "--changed",
        nargs="?",
        const="HEAD",
        metavar="REF",
        help="only bugs whose file or tests' file differs from a git ref (HEAD)",
    )
    parser.add_argument("--check", action="store_true", help="only tell whether each bug still applies")
    arguments = parser.parse_args()
    paths = [HERE / f"{Path(name).stem}.toml" for name in arguments.bugs] or sorted(HERE.glob("*.toml"))
    changed = git("diff", "--name-only", arguments.changed).splitlines() if arguments.changed else None
    bugs = select([read(path) for path in paths], arguments.only, changed)
    if arguments.check:
        return check(bugs)
    if not bugs:
        print("no planted bug is meant")
        return 0 if arguments.changed else 1
    try:
        return run(bugs, arguments.n)
    except KeyboardInterrupt:
        print("interrupted; nothing is left behind")
        return 130


if __name__ == "__main__":
    sys.exit(main())
