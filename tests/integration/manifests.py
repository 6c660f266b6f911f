"""Manifests and data for tests that run whole workflows on one machine: small, exact, no model needed."""

import base64
import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_common.types import Json
from steelyard_schema.ids import replication_id

DIGEST = f"sha256:{'0' * 64}"
ANSWER = pa.schema({"label": pa.int64()})


def make_evaluation(name: str = "demo", *, dataset: str = "datasets/demo", **changes: Any) -> Json:
    """An Evaluation by mock runners that answer each row with its own `label`.

    `runner` are arguments of the mock; `client`, `replicas`, `replications`, `workers` as in the spec.
    """
    identifier = uuid.uuid5(uuid.NAMESPACE_DNS, name).hex
    interface = {"endpoint": "classify", "outputSchema": {"arrowSchema": _encoded(ANSWER)}}
    runner = {
        "kind": "mock",
        "image": {"host": "localhost", "name": "steelyard/runner-mock", "digest": DIGEST},
        "args": changes.get("runner", []),
        "resources": {"cpu": "50m", "memory": "128Mi"},
    }
    service = {"id": "5e" * 16, "account": "tests", "name": "mock", "runner": runner, "interface": interface}
    return {
        "apiVersion": "dyff.io/v1alpha1",
        "kind": "Evaluation",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "id": identifier,
            "account": "tests",
            "dataset": "da" * 16,
            "replications": changes.get("replications", 1),
            "workersPerReplica": changes.get("workers", 4),
            "client": changes.get("client", {}),
            "inferenceSession": {"replicas": changes.get("replicas", 2), "inferenceService": service},
            "storage": {"inputs": {"dataset": dataset}, "output": f"evaluations/{identifier}"},
        },
    }


def make_job(name: str = "demo", script: str = "true", **spec: Any) -> Json:
    """A plain Job that runs a shell script once."""
    container = {"name": "main", "image": "localhost/steelyard/steps", "command": ["sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"backoffLimit": 0, "template": template, **spec},
    }


def write_dataset(storage: Path, rows: int, *, dataset: str = "datasets/demo") -> None:
    """`rows` rows whose label is their index, as one Parquet file."""
    folder = storage / dataset
    folder.mkdir(parents=True, exist_ok=True)
    numbers = pa.array(range(rows), pa.int64())
    pq.write_table(pa.table({"_index_": numbers, "label": numbers}), folder / "part-0.parquet")


def output_folder(storage: Path, evaluation: Json) -> Path:
    return storage / str(evaluation["spec"]["storage"]["output"])


def rows_done(output: Path) -> int:
    """Return the progress that the client reports."""
    try:
        return int(json.loads((output / ".steelyard" / "progress.json").read_bytes())["done"])
    except (OSError, ValueError, KeyError):
        return 0


def check_output(storage: Path, evaluation: Json, rows: int) -> None:
    """The verified output holds every (replication, index) exactly once, each with its own answer."""
    output = output_folder(storage, evaluation)
    manifest = json.loads((output / ".steelyard" / "manifest.json").read_bytes())
    counts: Counter[tuple[str, int]] = Counter()
    wrong = []
    for entry in manifest["files"]:
        for row in pq.read_table(output / entry["path"]).to_pylist():
            counts[row["_replication_"], row["_index_"]] += 1
            if [response["label"] for response in row["responses"]] != [row["_index_"]]:
                wrong.append(row)
    spec = evaluation["spec"]
    replications = [replication_id(spec["id"], number) for number in range(spec["replications"])]
    wanted = Counter((replication, index) for replication in replications for index in range(rows))
    assert not wrong, f"answers of other rows: {wrong[:3]}"
    assert counts - wanted == Counter(), "rows too many"
    assert wanted - counts == Counter(), "rows missing"


def _encoded(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()
