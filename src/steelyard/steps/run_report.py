"""The step that scores verified outputs.

`report.html`, `report.json`, `scores.parquet` and `attestation.json` in the report's output.

`python -m steelyard.steps.run_report --config FILE`, as the `<name>-run-aN` Job of a Report.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.progress import Progress
from steelyard.steps.volume import input_store, open_field_store, read_spec
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.publication import Publication
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.publish import make_publication, publish_report
from steelyard_evaluation.report.report import Report, Request, make_report
from steelyard_evaluation.report.rubrics import BadRubricArgument, NoSuchRubric
from steelyard_schema.data import DataView, SchemaAdapter
from steelyard_schema.resources import ReportResourceSpec
from steelyard_schema.steps import StepConfig


async def main(config: StepConfig, log: Log) -> None:
    spec = read_spec(config, ReportResourceSpec)
    output = open_field_store(spec.storage.output, "spec.storage.output")
    progress = Progress(output, "rows")
    try:
        publication = make_publication(await claim(output, config.epoch))
        if (published := await publication.complete_earlier()) is not None:
            rows = progress.total = published.rows or 0
            headline = "an earlier attempt has published the report"
        else:
            report = await _publish(spec, config, publication, progress, log)
            rows, headline = report.rows, report.headline
    except EvaluationFailed as error:
        raise StepFailed(error.code, error.message, permanent=error.permanent) from error
    await progress.report(rows, headline, last=True)
    log.info("the report is made", headline=headline, rows=rows)


async def _publish(
    spec: ReportResourceSpec, config: StepConfig, publication: Publication, progress: Progress, log: Log
) -> Report:
    """Make the report, and publish it."""
    scored = 0

    def count(done: int, total: int) -> None:
        nonlocal scored
        scored, progress.total = done, total

    # A rubric of a module may leave folders without permission to enter them.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with progress.report_regularly(lambda: (scored, "scoring")):
            if _has_own_code(spec.modules, spec.rubric):
                report = await _make_by_module(spec, config, Path(folder), log)
            else:
                report = await _make(_request(spec), Path(folder), count)
        await publish_report(report, spec.id, publication)
    return report


def _has_own_code(modules: Sequence[str] | None, rubric: str) -> bool:
    """Return whether the rubric is code that runs in a process of its own: of modules, or dyff-audit's."""
    return bool(modules) or rubric.startswith("dyff.")


async def _make(request: Request, folder: Path, count: Callable[[int, int], None]) -> Report:
    try:
        return await make_report(request, folder, count)
    except ReportFailed as error:
        raise StepFailed(error.code, error.message, permanent=error.permanent, row=error.row) from error
    except NoSuchRubric as error:
        raise StepFailed("NoSuchRubric", str(error), permanent=True) from error
    except BadRubricArgument as error:
        raise StepFailed("BadRubricArgument", str(error), permanent=True) from error


async def _make_by_module(spec: ReportResourceSpec, config: StepConfig, folder: Path, log: Log) -> Report:
    """Return the report by a rubric of the modules, which is code of users: it runs in a process of its own."""
    # Half a second of imports, which only few reports need.
    from steelyard_evaluation.analysis.errors import (
        METHOD_FAILED,
        METHOD_MISSING,
        METHOD_TRIES,
        AnalysisFailed,
    )
    from steelyard_evaluation.analysis.report_files import ModuleRequest, make_module_report

    request = ModuleRequest(
        rubric=spec.rubric,
        dataset=input_store(spec.storage.inputs, "dataset"),
        evaluation=input_store(spec.storage.inputs, "evaluation"),
        modules={id: input_store(spec.storage.inputs, id) for id in dict.fromkeys(spec.modules)},
        names=_names(spec),
        dataset_view=_pipeline(spec.datasetView) or [],
        evaluation_view=_pipeline(spec.evaluationView) or [],
    )
    try:
        return await make_module_report(request, folder, lambda line: log.info(line, source="rubric"))
    except AnalysisFailed as error:
        code = "NoSuchRubric" if error.code == METHOD_MISSING else error.code
        permanent = error.permanent or (error.code == METHOD_FAILED and config.attempt >= METHOD_TRIES)
        raise StepFailed(code, error.message, permanent=permanent) from error


def _names(spec: ReportResourceSpec) -> dict[str, str]:
    names = {
        "report": spec.id,
        "account": spec.account,
        "evaluation": spec.evaluation,
        "dataset": spec.dataset,
        "inferenceService": spec.inferenceService,
        "model": spec.model or "",
        **{f"{field}Name": name for field, name in spec.names.items()},
    }
    return {key: value for key, value in names.items() if value}


def _request(spec: ReportResourceSpec) -> Request:
    return Request(
        rubric=spec.rubric,
        dataset=input_store(spec.storage.inputs, "dataset"),
        evaluation=input_store(spec.storage.inputs, "evaluation"),
        names=_names(spec),
        dataset_view=_pipeline(spec.datasetView),
        evaluation_view=_pipeline(spec.evaluationView),
    )


def _pipeline(view: DataView | None) -> list[SchemaAdapter] | None:
    return list(view.adapterPipeline) if view is not None and view.adapterPipeline else None


async def _in_own_process(config: StepConfig, log: Log) -> None:
    """Run the step, so that the rubric of a module reads nothing of this process and leaves no process behind."""
    if _has_own_code(config.spec.get("modules"), config.spec.get("rubric", "")):
        from steelyard_common.processes import adopt_orphans
        from steelyard_evaluation.analysis.process import hide_environment

        hide_environment()
        adopt_orphans()
    await main(config, log)


if __name__ == "__main__":
    run_step(_in_own_process, "run_report")
