"""Record of the suites' last passing runs: the digest of each one's inputs, and the commit.

The digest decides whether a suite is run again; the commit is for people.
"""

import json
import subprocess
from collections.abc import Container
from dataclasses import asdict, dataclass
from pathlib import Path

RECORD = Path(__file__).parent / "passed.json"


@dataclass(frozen=True)
class PassingRun:
    """Run of a suite that passed; `commit` ends with `-dirty` where the work tree had other changes."""

    commit: str
    digest: str


def read_record(path: Path = RECORD) -> dict[str, PassingRun]:
    """Return the recorded runs by the name of the suite."""
    return (
        {name: PassingRun(**run) for name, run in json.loads(path.read_text()).items()}
        if path.exists()
        else {}
    )


def renew_record(names: Container[str], name: str, run: PassingRun | None, path: Path = RECORD) -> None:
    """Write the run of one suite; without one, remove the last. Remove all suites that are not in `names`."""
    runs = {
        known: known_run for known, known_run in read_record(path).items() if known in names and known != name
    }
    if run is not None:
        runs[name] = run
    lines = {known: asdict(runs[known]) for known in sorted(runs)}
    path.write_text(json.dumps(lines, indent=2, ensure_ascii=False) + "\n")


def commit_name(root: Path) -> str:
    """Return the commit of a work tree. Raises CalledProcessError where there is none."""
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    changes = _git(
        root, "status", "--porcelain", "--", ".", f":(exclude){RECORD.relative_to(RECORD.parents[2])}"
    )
    return f"{commit}-dirty" if changes else commit


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()
