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


COMMAND = """
import sys
from steelyard.cli.main import main
sys.argv[1:] = ["get", "models", "--endpoint", "http://127.0.0.1:9/v0", "--token", "none"]
try:
    main()
except SystemExit as ended:
    print(ended.code, *sys.modules)
"""


def test_a_command_that_asks_the_api_loads_no_command_line_of_its_http_client() -> None:
    run = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, check=True)
    code, *loaded = run.stdout.split()
    assert code == "1", run.stderr
    assert "httpx" in loaded
    assert not {"click", "pygments"} & set(loaded)


LONE = """
import sys
from steelyard.cli.main import main
sys.argv[1:] = ["spend", "--help"]
try:
    main()
except SystemExit as ended:
    print(ended.code, *(name for name in sys.modules if name.startswith("steelyard.cli.")))
"""


def test_a_command_loads_no_other_commands() -> None:
    run = subprocess.run([sys.executable, "-c", LONE], capture_output=True, text=True, check=True)
    code, *loaded = run.stdout.splitlines()[-1].split()
    assert code == "0", run.stderr
    shared = {"main", "lazy", "plain_text", "connection", "option_groups"}
    assert set(loaded) == {f"steelyard.cli.{name}" for name in {"spend", *shared}}
