"""Scores a verified run and makes its report. Imported late: scipy takes longer than the first calls."""

import tempfile
from pathlib import Path

from steelyard.report.report import NUMBERS, PAGE, SCORES, Request, make_report
from steelyard.runs.folder import RunFolder
from steelyard.runs.request import RunRequest


async def score(folder: RunFolder, request: RunRequest) -> str:
    """Page, numbers and scores beside the outputs; the headline. ReportFailed and UsageError say why not."""
    asked = Request(
        rubric=request.rubrics[0].reference,
        dataset=folder.inputs,
        evaluation=folder.outputs,
        names={"dataset": request.source.location, "model": request.model},
    )
    with tempfile.TemporaryDirectory(prefix="steelyard-report-") as scratch:
        report = await make_report(asked, Path(scratch))
        await folder.root.put_file(SCORES, report.scores)
        await folder.root.put(NUMBERS, report.numbers)
        await folder.root.put(PAGE, report.page)  # last: whoever sees the page finds the rest
    return report.headline
