"""`make bench`: every benchmark in turn, each in its own process; arguments choose some by name.

A benchmark prints Markdown tables, which go into docs/benchmarks.md, and its figures as JSON. One that fails is named,
and the others still run. What comes after `--` are options of the benchmark: `python -m benchmarks
operator -- --sizes 100 1000`. `--short` compares processor times with those of the peers, as CI does.
"""

import sys

from benchmarks import page

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
ON_SERVERS = ("logs", "engines", "storage_server")
"""Benchmarks that need Kafka, PostgreSQL, S3 and MongoDB's protocol; run where they are named."""


def main() -> int:
    if sys.argv[1:2] == ["--short"]:
        from benchmarks import short  # it loads what all benchmarks need

        return short.main(sys.argv[2:])
    words = sys.argv[1:]
    options = words[words.index("--") + 1 :] if "--" in words else []
    chosen = words[: words.index("--")] if "--" in words else words or list(BENCHMARKS)
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
        if not page.measure(name, [sys.executable, "-m", f"benchmarks.{name}", *options]):
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
