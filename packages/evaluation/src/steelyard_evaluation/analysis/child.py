"""The program that runs a method: `python -m steelyard_evaluation.analysis.child`, in the environment of workspace.py.

It has no credentials and no connection to the platform.
"""

import os
import sys
from pathlib import Path

from steelyard_common.errors import UsageError
from steelyard_evaluation.analysis.context import AnalysisContext
from steelyard_evaluation.analysis.errors import METHOD_MISSING, AnalysisFailed
from steelyard_evaluation.analysis.outcome import run_program
from steelyard_evaluation.analysis.workspace import CONFIG_FILE, STORAGE_ROOT, read_config


def run_method() -> str:
    """Run the method of the environment's analysis. Raises AnalysisFailed, and what the method raises."""
    context = AnalysisContext()
    _, fields = read_config(Path(os.environ[CONFIG_FILE]))
    method = fields.method
    kind, program = method.implementation.kind, method.implementation
    if kind == "PythonFunction" and program.pythonFunction is not None:
        from steelyard_evaluation.analysis.functions import run_function

        run_function(context, method, program.pythonFunction.fullyQualifiedName)
    elif kind == "PythonRubric" and program.pythonRubric is not None:
        from steelyard_evaluation.analysis.rubrics import run_rubric

        try:
            run_rubric(context, method, program.pythonRubric.fullyQualifiedName)
        except UsageError as error:  # there is no such rubric, or it takes no such argument
            raise AnalysisFailed(METHOD_MISSING, str(error)) from error
    elif kind == "JupyterNotebook" and program.jupyterNotebook is not None:
        from steelyard_evaluation.analysis.notebook import run_notebook

        notebook = program.jupyterNotebook
        run_notebook(context, notebook, Path(os.environ[STORAGE_ROOT]) / notebook.notebookModule)
    else:
        raise AnalysisFailed("BadRequest", f"spec.method.implementation: has no program of the kind {kind!r}")
    return ""


if __name__ == "__main__":
    sys.exit(run_program(run_method))
