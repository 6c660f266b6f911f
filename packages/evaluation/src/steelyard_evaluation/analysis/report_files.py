"""Reports by rubrics of modules: made in a process of its own from copies of the data, checked, and handed back.

The step `run_report` publishes them as it publishes any other.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa

from steelyard_common.bounded_parquet import open_parquet
from steelyard_evaluation.analysis.applied import DATASET, EVALUATION
from steelyard_evaluation.analysis.errors import output_invalid
from steelyard_evaluation.analysis.fetch import fetch_module
from steelyard_evaluation.analysis.outputs import list_files
from steelyard_evaluation.analysis.process import Write
from steelyard_evaluation.analysis.run import run_program
from steelyard_evaluation.analysis.workspace import Workspace
from steelyard_evaluation.engine import layout
from steelyard_evaluation.report.evidence.report_statement import report_statement
from steelyard_evaluation.report.layout import NUMBERS, PAGE, SCORES
from steelyard_evaluation.report.report import Report
from steelyard_evaluation.storage.store import Store
from steelyard_schema.data import SchemaAdapter
from steelyard_schema.names import OWN_LOGS

CHILD = "steelyard_evaluation.analysis.report_child"
OUTPUT = ".output"
"""Folder of the workspace with the report: no id of a module begins with a dot."""
_WORKING = (layout.PARTS, layout.EPOCHS, layout.CHECKPOINTS, layout.PROGRESS, OWN_LOGS)
"""Records that an evaluation's attempts keep for themselves, and that are not read afterwards."""


@dataclass(frozen=True)
class ModuleRequest:
    """Request for a report by a rubric of these modules."""

    rubric: str
    dataset: Store
    evaluation: Store
    modules: Mapping[str, Store]
    names: Mapping[str, str]
    dataset_view: Sequence[SchemaAdapter]
    evaluation_view: Sequence[SchemaAdapter]


async def make_module_report(request: ModuleRequest, folder: Path, write: Write) -> Report:
    """Return the report, whose files lie in `folder`; `write` gets each line that the rubric prints.

    Raises AnalysisFailed, and ObjectMissing for data that are not there.
    """
    workspace = Workspace(folder, OUTPUT)
    workspace.prepare()
    for id, module in request.modules.items():
        await fetch_module(module, workspace.folder(id))
    await _copy(request.dataset, workspace.storage / DATASET)
    await request.evaluation.head(layout.MANIFEST)
    await _copy(request.evaluation, workspace.storage / EVALUATION)
    workspace.config.write_bytes(
        orjson.dumps(
            {
                "rubric": request.rubric,
                "names": request.names,
                "datasetView": [step.dump() for step in request.dataset_view],
                "evaluationView": [step.dump() for step in request.evaluation_view],
            }
        )
    )
    headline = await run_program(CHILD, workspace, request.modules, write)
    return await asyncio.to_thread(_read_report, workspace.output, headline)


async def _copy(store: Store, folder: Path) -> None:
    async for key in _keys(store):
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        await store.download(key, folder / key)


async def _keys(store: Store) -> AsyncIterator[str]:
    async for info in store.list():
        if not info.key.startswith(_WORKING):
            yield info.key


def _read_report(output: Path, headline: str) -> Report:
    """Return the report that lies in the output. Raises AnalysisFailed for other files."""
    files = list_files(output)
    if missing := [name for name in (PAGE, NUMBERS, SCORES) if name not in files]:
        raise output_invalid(f"the rubric's process has left no {', '.join(missing)}")
    page, numbers = files.pop(PAGE).read_bytes(), files.pop(NUMBERS).read_bytes()
    scores = files.pop(SCORES)
    try:
        # Before anything is published: the attestation is made of them.
        report_statement(page, numbers)
        rows = open_parquet(scores).metadata.num_rows
    except (ValueError, LookupError, TypeError, AttributeError, pa.ArrowException) as error:
        raise output_invalid(f"the rubric's process has left no report: {error}") from error
    return Report(page=page, numbers=numbers, scores=scores, headline=headline, rows=rows, extra_files=files)
