"""A report by a rubric of dyff-audit's own, which counts how often answers say `like`."""

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.client import Client, presets
from steelyard_schema.data import SchemaAdapter
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.inference_service import InferenceInterface
from steelyard_schema.report import Report

SECONDS = 180.0
RUBRIC = "dyff.audit.scoring.example.LikeCount"
QUESTIONS = ("I like what you like", "Nothing of the kind", "Such as LIKE", "Liked")
LIKES = (2, 0, 1, 0)
ANSWER = pa.struct([pa.field("_response_index_", pa.int64()), pa.field("text", pa.string())])
ANSWERS: dict[str, pa.DataType] = {
    "_index_": pa.int64(),
    "_replication_": pa.string(),
    "responses": pa.list_(ANSWER),
}


def show(entity: Evaluation | Report) -> None:
    """Print the state of an entity: whoever looks on sees the reason for the wait."""
    words = f"{entity.kind} {entity.status} {entity.reason or ''} {entity.message or ''}"
    print(" ".join(words.split()), flush=True)


def check_report(client: Client, folder: Path) -> None:
    """Make the report of a mock whose answers begin with the questions. Raises AssertionError, WaitTimeout."""
    folder.mkdir()
    rows = pa.table({"_index_": pa.array(range(len(QUESTIONS)), pa.int64()), "prompt": QUESTIONS})
    pq.write_table(rows, folder / "part-0.parquet")
    dataset = client.datasets.create_from_folder(folder, account="test", name="likes", wait=True)
    interface = InferenceInterface(
        endpoint="generate",
        outputSchema=presets.data_schema(pa.schema(ANSWERS)),
        inputPipeline=[SchemaAdapter(kind="Select", configuration={"fields": ["prompt"]})],
        outputPipeline=[SchemaAdapter(kind="ExplodeCollections", configuration={"collections": ["text"]})],
    )
    service = client.inferenceservices.create(
        account="test", name="echo", runner=presets.mock(), interface=interface
    )
    session = {"inferenceService": service.id, "useSpotPods": False}
    evaluation = client.evaluations.create(account="test", dataset=dataset.id, inferenceSession=session)
    report = client.reports.create(account="test", rubric=RUBRIC, evaluation=evaluation.id)
    # The evaluation first: a report that waits for one does not say why that does not end.
    client.evaluations.wait(evaluation.id, timeout=SECONDS, on_change=show)
    client.reports.wait(report.id, timeout=SECONDS, on_change=show)
    with tempfile.TemporaryDirectory() as files:
        client.reports.download(report.id, files)
        numbers = json.loads((Path(files) / "report.json").read_text())
        scores = pq.read_table(Path(files) / "scores.parquet").sort_by("_index_").column("likeCount")
    assert tuple(scores.to_pylist()) == LIKES, scores
    assert numbers["metrics"][0]["value"] == sum(LIKES) / len(LIKES), numbers["metrics"]
