"""The step that scores verified outputs.

`report.html`, `report.json`, `scores.parquet` and `attestation.json` in the report's output.

`python -m steelyard.steps.run_report --config FILE`, as the `<name>-run-aN` Job of a Report.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from steelyard.report.errors import ReportFailed
from steelyard.report.publish import publish
from steelyard.report.report import Report, Request, make_report
from steelyard.report.rubrics import BadRubricArgument, NoSuchRubric
from steelyard.schema.data import DataView, SchemaAdapter
from steelyard.schema.resources import ReportResourceSpec
from steelyard.schema.steps import StepConfig
from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.progress import Progress
from steelyard.steps.volume import input_store, opened, spec_of


async def main(config: StepConfig, log: Log) -> None:
    spec = spec_of(config, ReportResourceSpec)
    output = opened(spec.storage.output, "spec.storage.output")
    request, progress = _request(spec), Progress(output, "rows")
    scored = 0

    def count(done: int, total: int) -> None:
        nonlocal scored
        scored, progress.total = done, total

    with tempfile.TemporaryDirectory() as folder:
        async with progress.kept(lambda: (scored, "scoring")):
            report = await _made(request, Path(folder), count)
        await publish(report, output)
    await progress.report(report.rows, report.headline, last=True)
    log.info("the report is made", headline=report.headline, rows=report.rows)


async def _made(request: Request, folder: Path, count: Callable[[int, int], None]) -> Report:
    try:
        return await make_report(request, folder, count)
    except ReportFailed as error:
        raise StepFailed(error.code, error.message, permanent=error.permanent, row=error.row) from error
    except NoSuchRubric as error:
        raise StepFailed("NoSuchRubric", str(error), permanent=True) from error
    except BadRubricArgument as error:
        raise StepFailed("BadRubricArgument", str(error), permanent=True) from error


def _request(spec: ReportResourceSpec) -> Request:
    if spec.modules:
        message = "spec.modules: rubrics from modules are not implemented; use an installed one"
        raise StepFailed("NotImplemented", message, permanent=True)
    names = {
        "report": spec.id,
        "account": spec.account,
        "evaluation": spec.evaluation,
        "dataset": spec.dataset,
        "inferenceService": spec.inferenceService,
        "model": spec.model or "",
        **{f"{field}Name": name for field, name in spec.names.items()},
    }
    return Request(
        rubric=spec.rubric,
        dataset=input_store(spec.storage.inputs, "dataset"),
        evaluation=input_store(spec.storage.inputs, "evaluation"),
        names={key: value for key, value in names.items() if value},
        dataset_view=_pipeline(spec.datasetView),
        evaluation_view=_pipeline(spec.evaluationView),
    )


def _pipeline(view: DataView | None) -> list[SchemaAdapter] | None:
    return list(view.adapterPipeline) if view is not None and view.adapterPipeline else None


if __name__ == "__main__":
    run_step(main, "run_report")
