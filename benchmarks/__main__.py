"""`make bench`: every benchmark in turn, each in its own process; arguments choose some by name.

A benchmark prints a Markdown table and its figures as JSON. One that fails is named, and the others still run.
"""

import subprocess
import sys

BENCHMARKS = (
    "machine",
    "imports",
    "clusters",
    "operator",
    "training",
    "evaluation",
    "views",
    "platform",
    "kubernetes",
)
ON_SERVERS = ("logs", "engines")
"""Benchmarks that need Kafka, PostgreSQL, S3 and MongoDB's protocol; run where they are named."""


def main() -> int:
    chosen = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in chosen if name not in BENCHMARKS + ON_SERVERS]
    if unknown:
        print(
            f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS + ON_SERVERS)}",
            file=sys.stderr,
        )
        return 2
    failed = []
    for name in chosen:
        print(f"\n# {name}\n", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
