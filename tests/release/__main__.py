"""`make release`: builds the distributions of all packages from the commit into `dist/`, with a bill of materials,
checksums and, where a key is given, a signature; then installs them in a new environment and plays the README there.

Everything is built twice, in two folders, and has to be equal. A tree that differs from its commit is refused.
"""

import argparse
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tests.release import bill, trial
from tests.release.build import Metadata, build_all, check_versions, export, read_commit, read_metadata
from tests.release.lock import LOCK, Own, write_requirements
from tests.release.sign import sign, write_sums
from tests.release.steps import ReleaseError
from tests.source import ROOT

DIST = ROOT / "dist"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument(
        "--sign", default="", metavar="KEY", help="file with an SSH key, or the name of a key of GnuPG"
    )
    parser.add_argument("--without-trial", action="store_true", help="build, and install nothing")
    arguments = parser.parse_args()
    try:
        release(arguments.sign, trial_wanted=not arguments.without_trial)
    except ReleaseError as error:
        print(f"no release: {error}", file=sys.stderr)
        return 1
    return 0


def release(key: str, *, trial_wanted: bool) -> None:
    commit = read_commit()
    with tempfile.TemporaryDirectory(prefix="steelyard-release-") as folder:
        scratch = Path(folder)
        trees = [export(commit, scratch / name / "tree") for name in ("first", "second")]
        first, second = (build_all(tree, tree.parent / "dist", commit) for tree in trees)
        if differing := [
            path.name
            for path, other in zip(first, second, strict=True)
            if path.read_bytes() != other.read_bytes()
        ]:
            raise ReleaseError(f"two builds of the commit differ: {', '.join(differing)}")
        distributions = [read_metadata(path) for path in first if path.suffix == ".whl"]
        version = check_versions(distributions)
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        files = [Path(shutil.copy(path, DIST)) for path in first]
        files.append(DIST / f"steelyard-{version}.cdx.json")
        own = [Own(one.name, version, one.needs, digests(one, files[:-1])) for one in distributions]
        pins = bill.read_shipped_pins({name for one in own for name in one.needs})
        bill.write_bill(files[-1], own, pins, datetime.fromtimestamp(commit.seconds, UTC))
        files.append(DIST / f"steelyard-{version}-local.txt")
        files[-1].write_text(write_requirements(own, LOCK.read_text()))
        sums = write_sums(DIST, files)
        print(
            f"steelyard {version} of {commit.name[:12]}: {len(files)} files in {DIST}, {sums.name} beside them"
        )
        print(
            f"signed: {sign(sums, key).name}" if key else "not signed: no key was given (SIGN=)", flush=True
        )
        if trial_wanted:
            trial.play(trial.install(files[-1], scratch), trees[0], scratch)
            print("tried: pip has installed it in a new environment, where the README's examples ran")


def digests(one: Metadata, files: list[Path]) -> dict[str, str]:
    start = f"{one.name.replace('-', '_')}-{one.version}"
    return {
        path.name: bill.digest_file(path)
        for path in files
        if path.name.startswith((f"{start}-", f"{start}.tar"))
    }


if __name__ == "__main__":
    sys.exit(main())
