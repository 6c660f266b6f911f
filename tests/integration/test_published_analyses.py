"""The published dyff-client, unmodified, from a dataset to a published safety case, and by a pipeline of five nodes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.client import presets
from steelyard.local.state import read_ready
from tests.integration.conftest import Machine
from tests.integration.small import write_rows
from tests.integration.test_published_client import ACCOUNT, forgiving, until

__all__ = ["forgiving"]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
ROWS = 9
CODE = """
import pyarrow as pa

from steelyard_evaluation.analysis import AnalysisContext


def right(arguments, rows, answers):
    labels = {row["_index_"]: row["label"] for row in rows.to_table().to_pylist()}
    answered = answers.to_table(columns=["_index_", "responses"]).to_pylist()
    print("comparing", len(answered), "answers", flush=True)
    right = [row["responses"][0]["label"] == labels[row["_index_"]] for row in answered]
    return pa.table({"_index_": [row["_index_"] for row in answered], "right": right})


def share(arguments, rights):
    right = rights.to_table()["right"].to_pylist()
    return pa.table({"share": [sum(right) / len(right)]})


def enough(arguments, shares):
    context = AnalysisContext()
    (share,) = shares.to_table()["share"].to_pylist()
    context.score("share", share, f"{share:.0%} of the answers are right.")
    context.curve("levels", {"level": [0.5, 1.0], "share": [share, share]})
    answer = "enough" if share >= float(arguments["least"]) else "too few"
    (context.output / "index.html").write_text(f"<p>{answer}</p>")
"""
SHARE = {"name": "share", "title": "Share", "summary": "Share of right answers.", "maximum": 1.0}
LEVEL = {"name": "level", "title": "Level", "summary": "Level."}
CURVE = {"name": "levels", "title": "T", "summary": "S", "dimensions": {"level": LEVEL, "share": SHARE}}
COLUMNS: Mapping[str, pa.Schema] = {
    "right": pa.schema({"_index_": pa.int64(), "right": pa.bool_()}),  # type: ignore[arg-type]
    "share": pa.schema([("share", pa.float64())]),
}
INPUTS = {
    "right": {"rows": "Dataset", "answers": "Evaluation"},
    "share": {"rights": "Measurement"},
    "enough": {"shares": "Measurement"},
}


def a_method(api: Any, function: str, module: str) -> str:
    """Create the method by a function of the module, and return its id."""
    from dyff.schema.requests import MethodCreateRequest

    output: dict[str, Any] = {"kind": "SafetyCase", "safetyCase": {"name": function}}
    if function in COLUMNS:
        schema = presets.data_schema(COLUMNS[function]).dump()
        measurement = {"name": function, "level": "Instance", "schema": schema}
        output = {"kind": "Measurement", "measurement": measurement}
    request = MethodCreateRequest.model_validate(
        {
            "account": ACCOUNT,
            "name": function,
            "scope": "InferenceService",
            "implementation": {
                "kind": "PythonFunction",
                "pythonFunction": {"fullyQualifiedName": f"published.{function}"},
            },
            "inputs": [{"keyword": keyword, "kind": kind} for keyword, kind in INPUTS[function].items()],
            "parameters": [{"keyword": "least"}] if function == "enough" else [],
            "output": output,
            "scores": [SHARE, CURVE] if function == "enough" else [],
            "modules": [module],
        }
    )
    return str(api.methods.create(request).id)


def of(method: str, service: str, inputs: Mapping[str, str], *, judged: bool = False) -> dict[str, Any]:
    """Return the fields of an analysis."""
    return {
        "method": method,
        "scope": {"inferenceService": service},
        "arguments": [{"keyword": "least", "value": "0.75"}] if judged else [],
        "inputs": [{"keyword": keyword, "entity": id} for keyword, id in inputs.items()],
    }


@pytest.mark.usefixtures("forgiving")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_published_client_measures_judges_and_publishes(machine: Machine, tmp_path: Path) -> None:
    from dyff.client import Client
    from dyff.schema import requests

    machine.up()
    ready = read_ready(machine.state)
    assert ready is not None
    api = Client(api_token=ready.token, endpoint=ready.api)

    rows = str(write_rows(tmp_path / "rows", ROWS))
    dataset = api.datasets.create_arrow_dataset(rows, account=ACCOUNT, name="rows")
    api.datasets.upload_arrow_dataset(dataset, rows)
    package = tmp_path / "package"
    package.mkdir()
    (package / "published.py").write_text(CODE)
    module = api.modules.create_package(str(package), account=ACCOUNT, name="published")
    api.modules.upload_package(module, str(package))
    until(lambda: api.modules.get(module.id), {"Ready"})
    service = api.inferenceservices.create(
        requests.InferenceServiceCreateRequest.model_validate(
            {
                "account": ACCOUNT,
                "name": "mock",
                "runner": presets.mock().dump(),
                "interface": presets.classification("classify").dump(),
            }
        )
    )
    asked = {
        "dataset": dataset.id,
        "inferenceSession": {"inferenceService": service.id, "useSpotPods": False},
    }
    evaluation = api.evaluations.create(
        requests.EvaluationCreateRequest.model_validate({"account": ACCOUNT, **asked})
    )
    methods = {function: a_method(api, function, module.id) for function in INPUTS}

    def analysis(fields: Mapping[str, Any]) -> Any:
        return requests.AnalysisCreateRequest.model_validate({"account": ACCOUNT, **fields})

    answers = {"rows": dataset.id, "answers": evaluation.id}
    right = api.measurements.create(analysis(of(methods["right"], service.id, answers)))
    share = api.measurements.create(analysis(of(methods["share"], service.id, {"rights": right.id})))
    judging = of(methods["enough"], service.id, {"shares": share.id}, judged=True)
    case = api.safetycases.create(analysis(judging))
    until(lambda: api.safetycases.get(case.id), {"Complete"}, 600)

    api.measurements.download(right.id, tmp_path / "right")
    table = pq.read_table(tmp_path / "right")
    assert set(table["_index_"].to_pylist()) == set(range(ROWS))
    assert table["right"].to_pylist() == [True] * ROWS
    api.measurements.download_logs(right.id, tmp_path / "right.log")
    assert f"comparing {ROWS} answers" in (tmp_path / "right.log").read_text()
    check_case(api, case.id, methods["enough"], tmp_path / "case")
    api.safetycases.publish(case.id, "public")
    assert api.safetycases.get(case.id).labels == {"dyff.io/access": "public"}

    nodes = {
        "ask": {"kind": "PipelineEvaluationRequest", **asked},
        "right": {
            "kind": "PipelineMeasurementRequest",
            **of(methods["right"], "$(service)", {"rows": dataset.id, "answers": "$(ask)"}),
        },
        "share": {
            "kind": "PipelineMeasurementRequest",
            **of(methods["share"], "$(service)", {"rights": "$(right.id)"}),
        },
        "enough": {
            "kind": "PipelineSafetyCaseRequest",
            **of(methods["enough"], "$(service)", {"shares": "$(share)"}, judged=True),
        },
        "again": {
            "kind": "PipelineSafetyCaseRequest",
            **of(methods["enough"], "$(service)", {"shares": "$(share.id)"}, judged=True),
        },
    }
    nodes["ask"] = {
        **nodes["ask"],
        "inferenceSession": {"inferenceService": "$(service)", "useSpotPods": False},
    }
    pipeline = api.pipelines.create(
        requests.PipelineCreateRequest.model_validate(
            {
                "account": ACCOUNT,
                "name": "all of it",
                "parameters": {"service": {"keyword": "service"}},
                "nodes": {name: {"name": name, "request": request} for name, request in nodes.items()},
            }
        )
    )
    run = api.pipelines.run(
        pipeline.id,
        requests.PipelineRunRequest(pipeline=pipeline.id, account=ACCOUNT, arguments={"service": service.id}),
    )
    for name in ("enough", "again"):
        until(lambda name=name: api.safetycases.get(run.workflows[name].id), {"Complete"}, 600)  # type: ignore[misc]
        check_case(api, run.workflows[name].id, methods["enough"], tmp_path / name)
    status = api.pipelines.get_run_status(run.id)
    assert {name: node.status for name, node in status.nodes.items()} == dict.fromkeys(nodes, "Complete")
    assert status.status == "Complete"


def check_case(api: Any, id: str, method: str, folder: Path) -> None:
    """Check scores, curves and page of a safety case."""
    (score,) = api.safetycases.scores(id)
    assert (score.analysis, score.name, score.quantity) == (id, "share", 1.0)
    assert [score.id for score in api.safetycases.query_scores(id=id, method=method)] == [score.id]
    (curve,) = api.safetycases.curves(id)
    assert curve.points == {"level": [0.5, 1.0], "share": [1.0, 1.0]}
    api.safetycases.download(id, folder)
    assert (folder / "index.html").read_text() == "<p>enough</p>"
