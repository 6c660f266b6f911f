"""`python -m tests.versions [TEST ...]`: the tests on every other Python that the package says it runs on.

By default all of them, but for those of the wheel and of the real engines. Versions that the machine lacks are named
and counted.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.engines.build import Missing
from tests.versions.interpreters import OTHERS
from tests.versions.suite import run

ALL = (
    ("src", "packages"),
    ("tests", "--dist", "loadfile", "--ignore", "tests/engines", "--ignore", "tests/e2e"),
)
"""Arguments of pytest's two runs, as in `make test`."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("tests", nargs="*", metavar="TEST", help="files or folders of tests; by default all")
    parser.add_argument("--only", choices=OTHERS, help="one version")
    asked = parser.parse_args()
    passed, failed, missing = list[str](), list[str](), list[str]()
    for version in [asked.only] if asked.only else OTHERS:
        try:
            (failed if _fails(version, asked.tests) else passed).append(version)
        except Missing as reason:
            missing.append(str(reason))
    for why in missing:
        print(f"left out: {why}")
    print(f"{len(passed)} passed, {len(failed)} failed, {len(missing)} skipped")
    return 1 if failed else 0


def _fails(version: str, tests: Sequence[str]) -> bool:
    runs = [tests] if tests else ALL
    return max(run(version, arguments) for arguments in runs) != 0  # each of them, also after one that failed


if __name__ == "__main__":
    sys.exit(main())
