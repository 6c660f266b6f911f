"""`python -m tests.kubernetes_workloads`: the battery on the embedded Kubernetes, compared with a real node.

`--only PATTERN` chooses cases. The status is 1 where a difference is not in `accepted.toml`, or where one of its rows
covers none any more.
"""

import argparse
import sys

from tests.engines.build import Missing, binaries
from tests.engines.node.cluster import node_cluster
from tests.kubernetes_workloads.compare import accepted, differences
from tests.kubernetes_workloads.run import cases, embedded, observations


def compare(pattern: str = "*") -> int:
    """Print all differences that are not accepted, and return the status. Raises Missing."""
    chosen = cases(pattern)
    kubectl = str(binaries() / "kubectl")
    with node_cluster() as kubeconfig:
        there = observations(kubeconfig, kubectl, chosen)
    with embedded() as kubeconfig:
        here = observations(kubeconfig, kubectl, chosen)
    rows, listed = differences(here, there), accepted()
    new = [row for row in rows if not any(entry.covers(row) for entry in listed)]
    gone = [entry for entry in listed if not any(entry.covers(row) for row in rows)] if pattern == "*" else []
    for row in new:
        print(row)
    for entry in gone:
        print(f"mended, and still in accepted.toml: {', '.join(entry.cases)}: {entry.path}")
    print(f"{len(chosen)} cases, {len(rows)} differences, {len(rows) - len(new)} of them are accepted")
    return 1 if new or gone else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes_workloads", description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN")
    try:
        return compare(parser.parse_args(arguments).only)
    except Missing as missing:
        sys.exit(f"{missing}: there is no real node")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
