"""Methods that are a Jupyter notebook: all its cells are run again, and their outputs become the page `index.html`.

As with dyff-audit, the page shows texts and outputs, and no code. Unlike there, it asks nothing of the network.
"""

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from steelyard_common.whole_files import TooLarge, check_values, read_whole
from steelyard_evaluation.analysis.context import AnalysisContext
from steelyard_evaluation.analysis.errors import METHOD_FAILED, SAID, AnalysisFailed, method_missing
from steelyard_schema.method import MethodImplementationJupyterNotebook

PAGE = "index.html"
MOST_PRINTED = 16 << 20
"""Characters that cells may print onto the page."""
MOST_SHOWN = 64 << 20
"""Bytes of all that cells may show on the page: pictures, tables, values."""
MOST_CELLS = 10_000
"""Cells that a notebook may have."""
_CELL, _COLOURS = re.compile(r"Cell In\[(\d+)\], line (\d+)"), re.compile(r"\x1B\[[0-9;]*m")
_KERNEL = "python3"
"""Kernel of this interpreter; a notebook may name one of its author's machine."""
_NO_NETWORK = (
    "{% extends 'lab/index.html.j2' %}"
    "{% block html_head_js %}{% endblock %}"
    "{% block html_head_js_mathjax %}{% endblock %}"
    "{% block html_head_js_mermaidjs %}{% endblock %}"
    "{% block jupyter_widgets %}{% endblock %}"
)
"""Jupyter's own template without the scripts that a browser would load from elsewhere."""


def run_notebook(
    context: AnalysisContext, notebook: MethodImplementationJupyterNotebook, module: Path
) -> None:
    """Run the notebook of the module's folder, and write its page. Raises AnalysisFailed."""
    path = _path(notebook, module)
    nbclient, nbconvert, nbformat = (_package(name) for name in ("nbclient", "nbconvert", "nbformat"))
    try:
        text = read_whole(path)
        check_values(text)
        content = nbformat.reads(text.decode(), as_version=4)
        if len(content.cells) > MOST_CELLS:
            raise TooLarge(f"has {len(content.cells)} cells; {MOST_CELLS} are allowed")
    except Exception as error:  # of many kinds, for a file that is no notebook
        raise method_missing(f"notebook {notebook.notebookPath!r}: cannot be read: {error}") from error
    for cell in content.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    _execute(nbclient, content, notebook.notebookPath)
    exporter = nbconvert.HTMLExporter(
        raw_template=_NO_NETWORK, exclude_input=True, exclude_input_prompt=True, exclude_output_prompt=True
    )
    title = content.metadata.get("title", path.stem)
    page, _ = exporter.from_notebook_node(content, {"metadata": {"name": title}})
    (context.output / PAGE).write_text(page, encoding="utf-8")


def _package(name: str) -> Any:
    """Import a package of Jupyter, which has types in some of its versions alone. Raises AnalysisFailed."""
    try:
        return import_module(name)
    except ImportError as error:
        message = (
            f"notebooks need the extra analysis: pip install 'steelyard[analysis]' ({error.name} is missing)"
        )
        raise AnalysisFailed("NotImplemented", message) from error


def _execute(nbclient: Any, content: Any, path: str) -> None:
    """Run all cells, whose outputs are then in the content. Raises AnalysisFailed."""
    resources = {"metadata": {"path": str(Path.cwd())}}
    client = _client_class(nbclient)(content, kernel_name=_KERNEL, timeout=None, resources=resources)
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError as error:
        print(error, flush=True)
        message = f"{error.ename}: {error.evalue}"
        if place := _place(error.traceback):
            message = f"{message[:SAID]} ({path}, {place})"
        raise AnalysisFailed(METHOD_FAILED, message, permanent=False) from error
    except nbclient.exceptions.DeadKernelError as error:
        message = "the notebook's kernel ended by itself, perhaps because there was no memory left"
        raise AnalysisFailed(METHOD_FAILED, message, permanent=False) from error


def _place(traceback: str) -> str:
    """Return the last cell and line that a traceback of a kernel names; empty where it names none."""
    places = _CELL.findall(_COLOURS.sub("", traceback))
    return "cell {}, line {}".format(*places[-1]) if places else ""


def _client_class(nbclient: Any) -> Any:
    """Return the class of clients that also print what cells print."""

    class Client(nbclient.NotebookClient):  # type: ignore[misc]
        printed = shown = 0

        def output(self, outs: list[Any], msg: dict[str, Any], display_id: str, cell_index: int) -> Any:
            if msg["msg_type"] != "stream":
                # Cells may show numbers of any length, which orjson does not write.
                content = json.dumps(msg["content"], default=str, ensure_ascii=False)
                self.shown += len(content.encode(errors="replace"))
                if self.shown > MOST_SHOWN:
                    raise AnalysisFailed(
                        METHOD_FAILED, f"its cells show more than {MOST_SHOWN} bytes", permanent=True
                    )
                return super().output(outs, msg, display_id, cell_index)
            text = msg["content"]["text"]
            print(text, end="", flush=True)
            self.printed += len(text)
            # The notebook is in memory until its page is written.
            return super().output(outs, msg, display_id, cell_index) if self.printed <= MOST_PRINTED else None

    return Client


def _path(notebook: MethodImplementationJupyterNotebook, module: Path) -> Path:
    path = (module / notebook.notebookPath).resolve()
    if not path.is_relative_to(module.resolve()) or not path.is_file():
        raise method_missing(
            f"notebook {notebook.notebookPath!r}: there is no such file in the module {notebook.notebookModule}"
        )
    return path
