"""Writes the roles and bindings that a real API server makes at its start into the embedded one's data file.

`python -m tests.kubernetes_api.generate_bootstrap`, by hand, when the version of Kubernetes changes; `kubectl` must
reach a fresh real server.
"""

import gzip
import subprocess
from pathlib import Path

import orjson

TARGET = Path("packages/local-kubernetes/src/steelyard_local_kubernetes/apiserver/access/bootstrap.json.gz")
KINDS = "clusterroles,clusterrolebindings,roles,rolebindings"
SERVER_SET = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


def main() -> None:
    command = ["kubectl", "get", KINDS, "--all-namespaces", "-o", "json"]
    items = orjson.loads(subprocess.run(command, capture_output=True, check=True).stdout)["items"]
    for item in items:
        for field in SERVER_SET:
            item["metadata"].pop(field, None)
    content = orjson.dumps(items)
    TARGET.write_bytes(gzip.compress(content, 9, mtime=0))
    print(f"{len(items)} objects, {len(content)} bytes of JSON, {TARGET.stat().st_size} compressed")


if __name__ == "__main__":
    main()
