"""docs/methods.md: its worked example makes two measurements and a safety case."""

import io
import json
import re
import types
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from steelyard.steps.common import Log
from steelyard.steps.example import make_config
from steelyard.steps.run_analysis import main
from steelyard_evaluation.analysis.example import make_notebook
from steelyard_evaluation.report.example import make_verified
from steelyard_evaluation.storage.files import FileStore
from steelyard_schema.analysis import AnalysisFields
from steelyard_schema.method import ForeignMethod
from steelyard_schema.requests import AnalysisCreateRequest, MethodCreateRequest

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def make_id(digit: str) -> str:
    return f"{digit * 12}4{digit * 3}8{digit * 15}"


MODULE, DATASET, EVALUATION, SERVICE = make_id("c"), make_id("d"), make_id("e"), make_id("5")


class Collection:
    """A collection of a client, which keeps the created entities."""

    def __init__(self, model: type[MethodCreateRequest | AnalysisCreateRequest], digits: str) -> None:
        self.model, self.digits = model, iter(digits)
        self.created: list[dict[str, Any]] = []

    def create(self, **fields: Any) -> Any:
        id = make_id(next(self.digits))
        self.created.append({**self.model.parse(fields).dump(), "id": id})
        return types.SimpleNamespace(id=id)


def examples() -> dict[str, str]:
    """The page's files, by their names."""
    blocks: list[tuple[str, str]] = re.findall(r"```python\n# ([\w.]+)\n(.*?)```", PAGE.read_text(), re.S)
    return dict(blocks)


async def test_the_worked_example_works(tmp_path: Path) -> None:
    files = examples()
    module = tmp_path / MODULE
    module.mkdir()
    for name in ("wrong_answers.py", "sure.py"):
        (module / name).write_text(files[name])
    (module / "case.ipynb").write_text(make_notebook(*files["case.ipynb"].split("# %%\n")))
    await make_verified(FileStore(tmp_path / DATASET), FileStore(tmp_path / EVALUATION))
    create = types.ModuleType("create")
    exec(compile(files["create.py"], "create", "exec"), create.__dict__)
    client = types.SimpleNamespace(
        methods=Collection(MethodCreateRequest, "012"),
        measurements=Collection(AnalysisCreateRequest, "ab"),
        safetycases=Collection(AnalysisCreateRequest, "f"),
    )
    create.analyse(client, "me", MODULE, make_evaluation())
    methods = {method["id"]: method for method in client.methods.created}
    wrong, sure = [
        await run(tmp_path, analysis, methods[analysis["method"]]) for analysis in client.measurements.created
    ]
    assert pq.read_metadata(wrong / "part-0.parquet").num_rows == 14
    assert pq.read_table(sure / "part-0.parquet")["correct"].to_pylist().count(True) == 66
    (analysis,) = client.safetycases.created
    case = await run(tmp_path, analysis, methods[analysis["method"]])
    (score,) = json.loads((case / ".dyff/scores.json").read_bytes())["scores"]
    assert score["quantityString"] == "82%"
    page = (case / "index.html").read_text()
    for text in ("Is it sure enough?", "82%", "Wrong answers by label:", "Not all answers are sure."):
        assert text in page
    assert "AnalysisContext" not in page  # the code is hidden
    assert "<script" not in page  # nothing is asked of the network


def make_evaluation() -> Any:
    """The evaluation of the page, with the fields that its program reads."""
    session = types.SimpleNamespace(inferenceService=types.SimpleNamespace(id=SERVICE))
    return types.SimpleNamespace(id=EVALUATION, dataset=DATASET, inferenceSession=session)


async def run(root: Path, analysis: dict[str, Any], method: dict[str, Any]) -> Path:
    """Run an analysis; its output is an input of later ones."""
    fields: dict[str, Any] = {
        name: analysis[name] for name in analysis if name in AnalysisFields.model_fields
    }
    ids: list[str] = [MODULE, *(item["entity"] for item in analysis["inputs"])]
    spec: dict[str, Any] = {
        **fields,
        "id": analysis["id"],
        "method": {name: method[name] for name in ForeignMethod.model_fields if name in method},
        "storage": {
            "inputs": {id: f"file://{root}/{id}" for id in ids},
            "output": f"file://{root}/{analysis['id']}",
        },
    }
    await main(make_config("run_analysis", "Analysis", spec), Log("t", io.StringIO()))
    return root / str(analysis["id"])
