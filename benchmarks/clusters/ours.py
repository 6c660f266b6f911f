"""The operations of steelyard.clusters: `python -m benchmarks.clusters.ours SIZE ...`; prints figures as JSON."""

import json
import sys

from benchmarks.clusters.operations import Figures, measure
from benchmarks.clusters.server import namespace_of
from steelyard.clusters import Client, ClusterConfig


def figures_of(size: int) -> Figures:
    created, applied = ClusterConfig(name="created"), ClusterConfig(name="applied")
    with Client(namespace=namespace_of(size)) as client:
        clusters = client.ray.clusters
        return measure(
            {
                "create": (lambda: clusters.create(created).name, "created"),
                "apply": (lambda: clusters.apply(applied).name, "applied"),
                "get": (lambda: clusters.get("c-0").name, "c-0"),
                "status": (lambda: clusters.status("c-0").ready, True),
                "list": (lambda: len(clusters.list()), size + 2),
                "delete": (lambda: clusters.delete("created"), None),
            }
        )


if __name__ == "__main__":
    print(json.dumps({size: figures_of(int(size)) for size in sys.argv[1:]}))
