"""A small evaluation for tests of the platform: rows that the mock service answers with their own label, scored."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.client import Client, presets

ACCOUNT = "tests"
RUBRIC = "classification.Classification"


@dataclass(frozen=True)
class Small:
    """Ids of the entities."""

    dataset: str
    service: str
    evaluation: str
    report: str


def write_rows(folder: Path, rows: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "_index_": pa.array(range(rows), pa.int64()),
            "label": pa.array([number % 3 for number in range(rows)], pa.int64()),
        }
    )
    pq.write_table(table, folder / "part-0.parquet")
    return folder


def make(client: Client, folder: Path, *, rows: int = 40, arguments: Sequence[str] = ()) -> Small:
    """Make all entities up to the report, requested at once."""
    dataset = client.datasets.create_from_folder(write_rows(folder, rows), account=ACCOUNT, name="rows")
    service = client.inferenceservices.create(
        account=ACCOUNT,
        name="mock",
        runner=presets.mock(*arguments),
        interface=presets.classification("classify"),
    )
    evaluation = client.evaluations.create(
        account=ACCOUNT,
        dataset=dataset.id,
        inferenceSession={"inferenceService": service.id, "useSpotPods": False},
    )
    report = client.reports.create(account=ACCOUNT, rubric=RUBRIC, evaluation=evaluation.id)
    return Small(dataset.id, service.id, evaluation.id, report.id)
