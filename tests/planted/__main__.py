"""`make planted`: applies each patch of this folder in a scratch worktree and expects the test that it names to fail.

Two patches are tried side by side, each in a worktree of its own.

A patch's first line is `# test: PATH::NAME`; the rest is a unified diff. A patch that no longer applies, or a test
that passes in spite of the bug, is a failure.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MARK = "PLANTED_IN"


def run(*command: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def named_tests(patch: Path) -> list[str]:
    found = re.match(r"# tests?: (.+)", patch.read_text())
    if not found:
        raise SystemExit(f"{patch.name}: its first line should be '# test: PATH::NAME'")
    return found[1].split()


def end_leftovers(tree: Path) -> None:
    """A planted bug may be that a process does not end: nothing that a test started may outlive it."""
    marked = f"{MARK}={tree}".encode()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and marked in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            continue  # ended meanwhile, or another user's


def verdict(patch: Path, tree: Path) -> str:
    """Empty when the named test failed because of the patch; else what is wrong."""
    applied = run("git", "apply", "--recount", str(patch), cwd=tree)
    if applied.returncode:
        return f"does not apply: {applied.stderr.strip()}"
    try:
        env = os.environ | {"PYTHONPATH": str(tree / "src"), MARK: str(tree)}
        tests = named_tests(patch)
        done = run(
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests, cwd=tree, env=env
        )
        if done.returncode == 0:
            return f"survives: {' '.join(tests)} passed in spite of it"
        if done.returncode != 1:
            return f"pytest exited {done.returncode}: {(done.stdout + done.stderr)[-400:]}"
        return ""
    finally:
        end_leftovers(tree)
        run("git", "checkout", "-q", "--", ".", cwd=tree)
        run("git", "clean", "-qfd", "--", "src", "tests", cwd=tree)


def judge(patches: Sequence[Path], scratch: Path, side_by_side: int) -> Iterator[tuple[Path, str]]:
    """Judge all patches in as many worktrees as may run side by side; each verdict comes when it is known."""
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(side_by_side):
        tree = scratch / f"tree-{number}"
        run("git", "worktree", "add", "--detach", "-f", str(tree), "HEAD", cwd=ROOT)
        trees.put(tree)

    def judged(patch: Path) -> tuple[Path, str]:
        tree = trees.get()
        try:
            return patch, verdict(patch, tree)
        finally:
            trees.put(tree)

    try:
        with ThreadPoolExecutor(side_by_side) as threads:
            for done in as_completed([threads.submit(judged, patch) for patch in patches]):
                yield done.result()
    finally:
        for number in range(side_by_side):
            run("git", "worktree", "remove", "--force", str(scratch / f"tree-{number}"), cwd=ROOT)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("patches", nargs="*", help="names of patches in this folder; all, if none is given")
    parser.add_argument("-n", type=int, default=2, metavar="COUNT", help="patches tried side by side (2)")
    asked = parser.parse_args()
    patches = [HERE / name for name in asked.patches] or sorted(HERE.glob("*.patch"))
    scratch = Path(tempfile.mkdtemp(prefix="steelyard-planted-"))
    survivors = 0
    try:
        for patch, fault in judge(patches, scratch, asked.n):
            survivors += bool(fault)
            print(f"{patch.name:55} {fault or 'found'}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{len(patches) - survivors} of {len(patches)} planted bugs were found")
    return 1 if survivors or not patches else 0


if __name__ == "__main__":
    sys.exit(main())
