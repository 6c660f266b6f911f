"""`python -m tests.frameworks [NAME ...]`: the examples of training, all by default.

`--kill first` ends the replica that leads instead of a worker; `--together` runs them side by side; `--images` prints
an images.toml for the environments instead. What cannot be installed is named and counted.
"""

import argparse
import sys

from tests.frameworks.examples import EXAMPLES
from tests.frameworks.suite import Plan, available, failed, images


def main() -> int:
    names = [example.name for example in EXAMPLES]
    parser = argparse.ArgumentParser(prog="python -m tests.frameworks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--kill", choices=("first", "last"), default="last", help="which replica dies")
    parser.add_argument("--together", action="store_true", help="all at once")
    parser.add_argument("--images", action="store_true", help="install, and print images.toml")
    arguments = parser.parse_intermixed_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: should be of {', '.join(names)}")
    chosen = [example for example in EXAMPLES if example.name in (arguments.names or names)]
    missing: list[str] = []
    pythons = available(chosen, missing.append)
    if arguments.images:
        print(images(pythons), end="")
        return 1 if missing else 0
    runnable = [example for example in chosen if example.environment in pythons]
    wrong = failed(Plan(runnable, pythons, arguments.kill, arguments.together)) if runnable else []
    for name in missing:
        print(f"left out: {name}")
    left_out = len(chosen) - len(runnable)
    print(f"{len(runnable) - len(wrong)} passed, {len(wrong)} failed, {left_out} skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
