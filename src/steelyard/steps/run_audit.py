"""The step that puts the reports of a procedure into one document.

Writes `scores/<report id>.parquet`, `reports/<report id>/report.html`, `audit.json`, `attestation.json` and
`index.html` into the audit's output. That output is all that a later audit needs to compare itself with this one.

`python -m steelyard.steps.run_audit --config FILE`, as the `<name>-run-aN` Job of an Audit.
"""

import re
import tempfile
from pathlib import Path

from steelyard.steps.common import Log, StepFailed, run_step
from steelyard.steps.progress import Progress
from steelyard.steps.volume import input_store, open_field_store, read_spec
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.report.audit.make import Request, make_audit
from steelyard_evaluation.report.audit.subject import Subject
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.publish import make_publication, publish_audit
from steelyard_schema.resources import AuditResourceSpec
from steelyard_schema.steps import StepConfig

BASELINE = "baseline"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


async def main(config: StepConfig, log: Log) -> None:
    try:
        await _main(config, log)
    except (EvaluationFailed, ReportFailed) as error:
        raise StepFailed(error.code, error.message, permanent=error.permanent, row=error.row) from error


async def _main(config: StepConfig, log: Log) -> None:
    spec = read_spec(config, AuditResourceSpec)
    output = open_field_store(spec.storage.output, "spec.storage.output")
    request = _request(spec)
    reports = len(request.reports)
    progress = Progress(output, "reports", reports)
    publication = make_publication(await claim(output, config.epoch))
    if await publication.complete_earlier() is not None:
        headline = "an earlier attempt has published the audit"
    else:
        await progress.report(0, "reading the reports")
        with tempfile.TemporaryDirectory() as folder:
            audit = await make_audit(request, Path(folder))
            await publish_audit(audit, spec.id, publication)
        headline = audit.headline
    await progress.report(reports, headline, last=True)
    log.info("the audit is made", headline=headline, reports=reports)


def _request(spec: AuditResourceSpec) -> Request:
    inputs = spec.storage.inputs
    ids = sorted(key for key in inputs if key != BASELINE)
    if not ids:
        raise StepFailed("BadConfiguration", "spec.storage.inputs: names no report", permanent=True)
    for key in ids:
        # The id becomes a path of the output and of the page's links.
        if not _ID.fullmatch(key):
            message = f"spec.storage.inputs: {key!r} should be a report's id"
            raise StepFailed("BadConfiguration", message, permanent=True)
    return Request(
        subject=Subject(
            spec.id,
            spec.account,
            spec.auditProcedure,
            spec.inferenceService,
            procedure_name=spec.names.get("auditProcedure", ""),
            use_case=spec.names.get("useCase", ""),
            author=spec.names.get("author", ""),
        ),
        reports={key: input_store(inputs, key) for key in ids},
        baseline=input_store(inputs, BASELINE) if BASELINE in inputs else None,
    )


if __name__ == "__main__":
    run_step(main, "run_audit")
