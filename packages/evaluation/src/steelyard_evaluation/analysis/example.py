"""Small analyses with modules and inputs on the local disk. Tests show only what matters."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ID, METHOD, MODULE, INPUT = "a" * 32, "b" * 32, "c" * 32, "d" * 32
ROWS = pa.schema([pa.field("_index_", pa.int64()), pa.field("length", pa.int64())])
ACCURACY = {
    "name": "accuracy",
    "title": "Accuracy",
    "summary": "Share of right answers.",
    "minimum": 0.0,
    "maximum": 1.0,
    "format": "{quantity:.2f}",
}
CURVE = {
    "name": "recall",
    "title": "Recall",
    "summary": "Recall by threshold.",
    "dimensions": {
        "threshold": {"name": "threshold", "title": "Threshold", "summary": "Threshold."},
        "recall": {**ACCURACY, "name": "recall"},
    },
}


def encode_schema(schema: pa.Schema) -> str:
    """Return a schema as methods declare it."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def make_method(
    kind: str = "PythonFunction", name: str = "lengths.lengths", schema: pa.Schema = ROWS, **changes: Any
) -> dict[str, Any]:
    """A method of the module; a notebook's output is a safety case, any other's a measurement."""
    field = kind[0].lower() + kind[1:]
    program: dict[str, Any] = {"fullyQualifiedName": name}
    output: dict[str, Any] = {
        "kind": "Measurement",
        "measurement": {"name": "m", "level": "Instance", "schema": {"arrowSchema": encode_schema(schema)}},
    }
    if kind == "JupyterNotebook":
        program = {"notebookModule": MODULE, "notebookPath": name}
        output = {"kind": "SafetyCase", "safetyCase": {"name": "s"}}
    return {
        "id": METHOD,
        "account": "examples",
        "name": "method",
        "scope": "Evaluation",
        "implementation": {"kind": kind, field: program},
        "inputs": [{"kind": "Dataset", "keyword": "texts"}],
        "output": output,
        "scores": [ACCURACY, CURVE],
        "modules": [MODULE],
        **changes,
    }


def make_analysis(method: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Fields of an analysis of the method."""
    return {
        "scope": {"evaluation": "e" * 32},
        "arguments": [{"keyword": "factor", "value": "2"}],
        "inputs": [{"keyword": "texts", "entity": INPUT}],
        "method": dict(method or make_method()),
        **changes,
    }


def write_inputs(root: Path, code: Mapping[str, str]) -> dict[str, str]:
    """Write the files of the module and an input with three texts; return their locations, as a spec has them."""
    for path, text in code.items():
        (root / "module" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "module" / path).write_text(text)
    (root / "input").mkdir(exist_ok=True)
    rows = [{"_index_": index, "text": "x" * (index + 1)} for index in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), root / "input" / "part-0.parquet")
    (root / "input" / "notes.txt").write_text("no rows")
    return {MODULE: f"file://{root}/module", INPUT: f"file://{root}/input"}


def make_notebook(*cells: str) -> str:
    """A notebook with these cells of code."""
    return json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "id": f"cell-{number}",
                    "execution_count": None,
                    "metadata": {},
                    "outputs": [],
                    "source": cell,
                }
                for number, cell in enumerate(cells)
            ],
            # A kernel of its author's machine, which is not here.
            "metadata": {"kernelspec": {"name": "conda-mine", "display_name": "mine", "language": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )
