"""`make planted`: plants each bug of this folder in a scratch worktree and expects one of its tests to fail.

Two bugs are tried side by side, each in a worktree of its own. A bug whose code is no longer there, or whose tests
pass in spite of it, is a failure. `--check` only says whether each can still be planted, which takes seconds.
"""

import argparse
import ast
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from tests.planted.bug import Bug, DoesNotApplyError, read

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MARK = "PLANTED_IN"


def run(*command: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def end_leftovers(tree: Path) -> None:
    """End the processes that a test of `tree` has left: a planted bug may be that a process does not end."""
    marked = f"{MARK}={tree}".encode()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and marked in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            continue  # ended meanwhile, or another user's


def obstacle(bug: Bug, tree: Path) -> str:
    """Return why a bug cannot be planted in a tree; empty if it can."""
    missing = [test for test in bug.tests if not has_test(tree, test)]
    if missing:
        return f"there is no test {' '.join(missing)}"
    try:
        source = (tree / bug.file).read_text()
        changed = bug.apply(source)
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source)):
            return "changes nothing"
    except (OSError, DoesNotApplyError, SyntaxError) as error:
        return f"does not apply: {error}"
    return ""


def has_test(tree: Path, test: str) -> bool:
    """Tell whether a test's file defines the function that the test's node id names."""
    path, *names = test.split("[", maxsplit=1)[0].split("::")
    file = tree / path
    if not file.is_file() or not names:
        return file.is_file()
    source = file.read_text()
    return f"def {names[-1]}(" in source or f"\n{names[-1]} = " in source


def why_it_survives(bug: Bug, tree: Path) -> str:
    """Plant a bug and run its tests: empty when one fails because of the bug, else what is wrong."""
    reason = obstacle(bug, tree)
    if reason:
        return reason
    try:
        file = tree / bug.file
        file.write_text(bug.apply(file.read_text()))
        env = os.environ | {"PYTHONPATH": str(tree / "src"), MARK: str(tree)}
        outcome = run(
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            *bug.tests,
            cwd=tree,
            env=env,
        )
        if outcome.returncode == 0:
            return f"survives: {' '.join(bug.tests)} passed in spite of it"
        if outcome.returncode != 1:
            return f"pytest exited {outcome.returncode}: {(outcome.stdout + outcome.stderr)[-400:]}"
        return ""
    finally:
        end_leftovers(tree)
        run("git", "checkout", "-q", "--", ".", cwd=tree)
        run("git", "clean", "-qfd", "--", "src", "tests", cwd=tree)


def try_bugs(bugs: Sequence[Bug], scratch: Path, side_by_side: int) -> Iterator[tuple[Bug, str]]:
    """Try all bugs in as many worktrees as may run side by side; yield each result when it is known."""
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(side_by_side):
        tree = scratch / f"tree-{number}"
        run("git", "worktree", "add", "--detach", "-f", str(tree), "HEAD", cwd=ROOT)
        trees.put(tree)

    def in_a_free_tree(bug: Bug) -> tuple[Bug, str]:
        tree = trees.get()
        try:
            return bug, why_it_survives(bug, tree)
        finally:
            trees.put(tree)

    try:
        with ThreadPoolExecutor(side_by_side) as threads:
            for attempt in as_completed([threads.submit(in_a_free_tree, bug) for bug in bugs]):
                yield attempt.result()
    finally:
        for number in range(side_by_side):
            run("git", "worktree", "remove", "--force", str(scratch / f"tree-{number}"), cwd=ROOT)


def check(bugs: Sequence[Bug]) -> int:
    """Print the bugs that can no longer be planted, and return the exit code."""
    obstacles = {bug.name: reason for bug in bugs if (reason := obstacle(bug, ROOT))}
    for name, reason in obstacles.items():
        print(f"{name}: {reason}")
    print(f"{len(bugs) - len(obstacles)} of {len(bugs)} planted bugs apply")
    return 1 if obstacles else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("bugs", nargs="*", help="names of bugs in this folder; all, if none is given")
    parser.add_argument("-n", type=int, default=2, metavar="COUNT", help="bugs tried side by side (2)")
    parser.add_argument("--check", action="store_true", help="only tell whether each bug still applies")
    arguments = parser.parse_args()
    paths = [HERE / f"{Path(name).stem}.toml" for name in arguments.bugs] or sorted(HERE.glob("*.toml"))
    bugs = [read(path) for path in paths]
    if arguments.check:
        return check(bugs)
    scratch = Path(tempfile.mkdtemp(prefix="steelyard-planted-"))
    survivors = 0
    try:
        for bug, reason in try_bugs(bugs, scratch, arguments.n):
            survivors += bool(reason)
            print(f"{bug.name:50} {reason or 'found'}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{len(bugs) - survivors} of {len(bugs)} planted bugs were found")
    return 1 if survivors or not bugs else 0


if __name__ == "__main__":
    sys.exit(main())
