"""A notebook that stands for far more than it weighs is refused before it is run, and one that shows too much ends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from steelyard_common.whole_files import DOCUMENT_BYTES
from steelyard_evaluation.analysis import notebook
from steelyard_evaluation.analysis.context import AnalysisContext
from steelyard_evaluation.analysis.errors import AnalysisFailed
from steelyard_evaluation.analysis.example import MODULE, make_notebook
from steelyard_evaluation.analysis.notebook import run_notebook
from steelyard_schema.method import MethodImplementationJupyterNotebook


def _with(field: str, content: str) -> bytes:
    return make_notebook("1").replace(f'"{field}": []', f'"{field}": [{content}]').encode()


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "cells": (lambda: make_notebook(*["1"] * 11).encode(), "has 11 cells; 10 are allowed"),
    "outputs": (lambda: _with("outputs", "{}," * 300_000 + "{}"), "has more than 250000 lists and objects"),
    "levels": (lambda: _with("outputs", "[" * 100_000 + "]" * 100_000), "cannot be read: "),
    "bytes": (lambda: b" " * (DOCUMENT_BYTES + 1), f"case.ipynb: has more than {DOCUMENT_BYTES} bytes"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_notebook_is_bounded_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bomb: str
) -> None:
    monkeypatch.setattr(notebook, "MOST_CELLS", 10)
    make, said = BOMBS[bomb]
    (tmp_path / "case.ipynb").write_bytes(make())
    implementation = MethodImplementationJupyterNotebook(notebookModule=MODULE, notebookPath="case.ipynb")
    with pytest.raises(AnalysisFailed, match=said) as refused:
        run_notebook(AnalysisContext.__new__(AnalysisContext), implementation, tmp_path)
    assert refused.value.code == "MethodMissing"
    assert "\n" not in str(refused.value)


def test_what_cells_show_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MOST_SHOWN", 10_000)
    client: Any = notebook._client_class(nbclient)(nbformat.v4.new_notebook(), allow_errors=False)
    client.clear_before_next_output = False  # as it is when a cell begins
    shown = {
        "msg_type": "display_data",
        "parent_header": {},
        "content": {"data": {"text/plain": "x" * 4000, "application/json": 2**70}, "metadata": {}},
    }
    outputs: list[Any] = []
    for _ in range(2):
        client.output(outputs, {"header": {"msg_type": "display_data"}, **shown}, None, 0)
    with pytest.raises(AnalysisFailed, match="its cells show more than 10000 bytes"):
        client.output(outputs, shown, None, 0)
    assert len(outputs) == 2
