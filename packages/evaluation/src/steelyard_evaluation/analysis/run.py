"""Runs an analysis: brings its inputs, runs its method in a process of its own, checks the output and publishes it.

The step `run_analysis` calls it; nothing here knows a resource or a Job.
"""

import asyncio
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard_evaluation.analysis.errors import METHOD_FAILED, AnalysisFailed
from steelyard_evaluation.analysis.fetch import fetch_input, fetch_module
from steelyard_evaluation.analysis.outcome import Outcome, read_outcome
from steelyard_evaluation.analysis.outputs import check_outputs
from steelyard_evaluation.analysis.process import Write, run_process, status_text
from steelyard_evaluation.analysis.scores import beyond_bounds
from steelyard_evaluation.analysis.tables import parse_declared_schema
from steelyard_evaluation.analysis.workspace import Workspace, write_config
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.engine.publication import Publication
from steelyard_evaluation.storage.store import Store
from steelyard_schema.analysis import AnalysisFields

CHILD = "steelyard_evaluation.analysis.child"
Progress = Callable[[int, str], Awaitable[None]]
"""Function that receives the number of finished stages (of three) and the present one."""
STAGES = 3
_INSTALL = "steelyard runners install dyff-audit"


@dataclass(frozen=True)
class Request:
    """Request for an analysis: its fields, and the stores of its inputs and modules by their ids."""

    id: str
    account: str
    fields: AnalysisFields
    inputs: Mapping[str, Store]
    modules: Mapping[str, Store]
    output: Store
    epoch: str


async def run_analysis(request: Request, write: Write, progress: Progress) -> str:
    """Run the analysis, and return what it has made in a sentence; `write` gets each line that the method prints.

    Raises AnalysisFailed, and EvaluationFailed where a later attempt has begun or another one has published.
    """
    if request.fields.method.output.measurement is not None:
        parse_declared_schema(request.fields.method.output.measurement.schema_.arrowSchema)
    publication = Publication(await claim(request.output, request.epoch))
    if await publication.complete_earlier() is not None:
        return "an earlier attempt has published the output"
    # The method may leave folders without permission to enter them.
    with tempfile.TemporaryDirectory(prefix="analysis-", ignore_cleanup_errors=True) as folder:
        workspace = Workspace(Path(folder), request.id)
        workspace.prepare()
        await progress(0, "fetching")
        await _fetch(request, workspace)
        write_config(workspace.config, request.id, request.account, request.fields)
        await progress(1, "running the method")
        for keyword in list_undeclared_arguments(request.fields):
            write(f"warning: arguments: {keyword!r} is not a parameter of the method")
        await run_program(CHILD, workspace, request.modules, write)
        await progress(2, "publishing")
        outputs = await asyncio.to_thread(check_outputs, workspace, request.fields)
        for sentence in beyond_bounds(request.fields, outputs.records):
            write(f"warning: {sentence}")
        await publication.publish(outputs.files, outputs.records, outputs.rows, analysis=request.id)
    result = f"{outputs.rows} rows" if outputs.rows is not None else "a page"
    return f"the method has made {result}"


def list_undeclared_arguments(fields: AnalysisFields) -> list[str]:
    """Return the keywords of arguments that the method does not declare. It gets them, as with dyff-audit."""
    declared = {parameter.keyword for parameter in fields.method.parameters}
    return [argument.keyword for argument in fields.arguments if argument.keyword not in declared]


async def run_program(program: str, workspace: Workspace, modules: Iterable[str], write: Write) -> str:
    """Run a program of this package in the workspace, and return its message. Raises AnalysisFailed."""
    environment = workspace.environment(modules)
    status = await run_process(["-m", program], environment, workspace.home, write, python=workspace.python)
    outcome = read_outcome(workspace.outcome)
    if outcome is None:
        message = f"the method has ended its process before it was done: {status_text(status)}"
        raise AnalysisFailed(METHOD_FAILED, message, permanent=False)
    _with_command(outcome).check()
    return outcome.message


def _with_command(outcome: Outcome) -> Outcome:
    """Return the outcome, whose message names the command that installs what the method has not found."""
    if not re.search(r"(No module named|there is no module) 'dyff\b", outcome.message):
        return outcome
    return replace(outcome, message=f"{outcome.message}; on one machine, install it with: {_INSTALL}")


async def _fetch(request: Request, workspace: Workspace) -> None:
    for id, store in request.modules.items():
        await fetch_module(store, workspace.folder(id))
    for id, store in request.inputs.items():
        await fetch_input(store, workspace.folder(id))
