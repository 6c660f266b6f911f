"""The program that makes a report by a rubric of a module: `python -m steelyard_evaluation.analysis.report_child`.

It reads the request that report.py has written, and copies of the dataset and of the verified outputs. It has no
credentials and no connection to the platform.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

import orjson

from steelyard_evaluation.analysis.applied import DATASET, EVALUATION
from steelyard_evaluation.analysis.errors import AnalysisFailed
from steelyard_evaluation.analysis.outcome import run_program
from steelyard_evaluation.analysis.report_files import OUTPUT
from steelyard_evaluation.analysis.rubrics import find_rubrics
from steelyard_evaluation.analysis.workspace import CONFIG_FILE, STORAGE_ROOT
from steelyard_evaluation.report.errors import ReportFailed, RubricFailed
from steelyard_evaluation.report.layout import NUMBERS, PAGE, SCORES
from steelyard_evaluation.report.report import Report, Request, make_report
from steelyard_evaluation.report.rubrics import BadRubricArgument, NoSuchRubric
from steelyard_evaluation.storage.files import FileStore
from steelyard_schema.data import SchemaAdapter


def score() -> str:
    """Make the report, and return its headline. Raises AnalysisFailed, and what the rubric raises."""
    root = Path(os.environ[STORAGE_ROOT])
    content = orjson.loads(Path(os.environ[CONFIG_FILE]).read_bytes())
    request = Request(
        rubric=content["rubric"],
        dataset=FileStore(root / DATASET),
        evaluation=FileStore(root / EVALUATION),
        names=content["names"],
        dataset_view=[SchemaAdapter.parse(step) for step in content["datasetView"]] or None,
        evaluation_view=[SchemaAdapter.parse(step) for step in content["evaluationView"]] or None,
        known=find_rubrics(content["rubric"]),
    )
    with tempfile.TemporaryDirectory() as folder:
        try:
            report = asyncio.run(make_report(request, Path(folder)))
        except RubricFailed as failed:
            raise failed.error from None
        except ReportFailed as error:
            row = f"row {error.row}: " if error.row else ""
            raise AnalysisFailed(error.code, f"{row}{error.message}", permanent=error.permanent) from error
        except (NoSuchRubric, BadRubricArgument) as error:
            raise AnalysisFailed(type(error).__name__, str(error)) from error
        _write(report, root / OUTPUT)
    return report.headline


def _write(report: Report, output: Path) -> None:
    for path, file in {SCORES: report.scores, **report.extra_files}.items():
        (output / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(file, output / path)
    (output / NUMBERS).write_bytes(report.numbers)
    (output / PAGE).write_bytes(report.page)


if __name__ == "__main__":
    sys.exit(run_program(score))
