"""The program that runs a method: `python -m steelyard.analysis.child`, in the environment of workspace.py.

It has no credentials and no connection to the platform. It writes how it ended to the outcome file, last of all: where
that is missing, the method has ended the process.
"""

import os
import resource
import sys
import traceback
from pathlib import Path

import orjson

from steelyard.analysis.context import AnalysisContext
from steelyard.analysis.errors import METHOD_FAILED, AnalysisFailed
from steelyard.analysis.process import end_with_parent
from steelyard.analysis.workspace import CONFIG_FILE, OUTCOME_FILE, STORAGE_ROOT, read_config
from steelyard.errors import UsageError

DONE = "Done"


def main() -> int:
    """Run the method, and return the exit status."""
    end_with_parent()
    # A crash of the method would fill the disk with its memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        run_method()
    except AnalysisFailed as error:
        return _end(error.code, error.message, permanent=error.permanent)
    except BaseException as error:  # noqa: BLE001 - whatever the method raises has to reach the condition
        traceback.print_exc()
        # The last line may be long, and of several lines.
        said = traceback.format_exception_only(error)[-1].strip()
        return _end(METHOD_FAILED, said, permanent=False)
    return _end(DONE, "")


def run_method() -> None:
    """Run the method of the environment's analysis. Raises AnalysisFailed, and what the method raises."""
    context = AnalysisContext()
    _, fields = read_config(Path(os.environ[CONFIG_FILE]))
    method = fields.method
    kind, program = method.implementation.kind, method.implementation
    if kind == "PythonFunction" and program.pythonFunction is not None:
        from steelyard.analysis.functions import run_function

        run_function(context, method, program.pythonFunction.fullyQualifiedName)
    elif kind == "PythonRubric" and program.pythonRubric is not None:
        from steelyard.analysis.rubrics import run_rubric

        try:
            run_rubric(context, method, program.pythonRubric.fullyQualifiedName)
        except UsageError as error:  # there is no such rubric, or it takes no such argument
            raise AnalysisFailed("MethodMissing", str(error)) from error
    elif kind == "JupyterNotebook" and program.jupyterNotebook is not None:
        from steelyard.analysis.notebook import run_notebook

        notebook = program.jupyterNotebook
        run_notebook(context, notebook, Path(os.environ[STORAGE_ROOT]) / notebook.notebookModule)
    else:
        raise AnalysisFailed("BadRequest", f"spec.method.implementation: has no program of the kind {kind!r}")


def _end(code: str, message: str, *, permanent: bool = True) -> int:
    # A name of a file that is no UTF-8 has characters that JSON cannot hold.
    text = message[:4096].encode(errors="replace").decode()
    content = {"code": code, "message": text, "permanent": permanent}
    Path(os.environ[OUTCOME_FILE]).write_bytes(orjson.dumps(content))
    if code != DONE:
        print(f"{code}: {message}", file=sys.stderr, flush=True)
    return 0 if code == DONE else 1


if __name__ == "__main__":
    sys.exit(main())
