"""Tests of what a fresh interpreter has loaded after an import: it shows the cost of the import on any machine."""

import subprocess
import sys

import pytest

HEAVY = {
    "aiohttp", "cryptography", "fastapi", "jinja2", "jsonpath_ng", "onnxruntime", "pandas", "prometheus_client",
    "scipy", "sklearn", "uvicorn",
}  # fmt: skip
ARRAYS = {"numpy", "pyarrow"}
NOTEBOOKS = {"IPython", "httpx", "ipywidgets", "kubernetes", "orjson", "ray", "rich"}
PROGRAM = """
import sys
import {module}
from pydantic import BaseModel

def below(model):
    for child in model.__subclasses__():
        yield child
        yield from below(child)

built = [m.__qualname__ for m in below(BaseModel) if m.__module__.startswith("steelyard") and m.__pydantic_complete__]
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
print(*built)
"""


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("steelyard.client", HEAVY | ARRAYS | {"orjson"}),
        ("steelyard.cli.main", HEAVY | ARRAYS | {"httpx", "orjson"}),
        ("steelyard.local.supervisor", HEAVY | ARRAYS | {"httpx"}),
        ("steelyard.clusters.client, steelyard.clusters.ray.config", HEAVY | ARRAYS | NOTEBOOKS),
        *(
            (f"steelyard.steps.{step}", HEAVY | ARRAYS)
            for step in ("fetch_model", "fetch_volume", "carry_output")
        ),
        *((f"steelyard.steps.{step}", HEAVY) for step in ("evaluation_client", "verify_evaluation_output")),
        *((f"steelyard.steps.{step}", HEAVY) for step in ("run_report", "run_audit")),
    ],
)
def test_an_import_loads_nothing_heavy_and_builds_no_model(module: str, absent: set[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module=module)], capture_output=True, text=True, check=True
    )
    loaded, built = run.stdout.split("\n")[:2]
    assert not absent & set(loaded.split())
    assert built == ""
