"""The scores and the report of a verified run. Imported late: importing scipy takes longer than the first calls."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard_common.errors import UsageError
from steelyard_evaluation.report.evidence.attestation import signing_key
from steelyard_evaluation.report.publish import publish
from steelyard_evaluation.report.report import Request, make_report
from steelyard_evaluation.report.rubrics import find_rubric
from steelyard_evaluation.report.rubrics.calls import rubric_code
from steelyard_evaluation.report.statistics.reducers import check_reducers
from steelyard_evaluation.runs.folder import RUN_FILE, RunFolder, read_manifest, read_run_record, request_text
from steelyard_evaluation.runs.judge.evidence import check_judged, judging_files
from steelyard_evaluation.runs.judge.output import find_judged_output
from steelyard_evaluation.runs.possible_answers import check_field
from steelyard_evaluation.runs.request import RunRequest
from steelyard_evaluation.runs.rubric_names import check_verdicts
from steelyard_evaluation.runs.spending.accounts import accounts, spending
from steelyard_schema.columns import missing, parts, sentence


def check_rubrics(request: RunRequest, columns: Sequence[str]) -> None:
    """Raise UsageError for a rubric that does not fit rows with these columns, or a reducer that fits no such run."""
    check_reducers(request.reducers, request.replications)
    for spec in request.rubrics:
        rubric = find_rubric(spec.reference)
        with rubric_code(type(rubric), "in columns"):
            names = tuple(rubric.columns)
        for name in names:
            if fault := missing(name, columns, request.source.location):
                rename = f"Rename one (--map {parts(name)[0]}=COLUMN)"
                raise UsageError(f"--rubric {spec.reference}: {sentence(fault)} {rename}")
        check_field(rubric, spec.reference)


@dataclass(frozen=True)
class ScoringResult:
    """The report of a run in short: headlines by rubric, and the keys whose signatures it lost."""

    headlines: tuple[tuple[str, str], ...]
    unsigned: tuple[str, ...] = ()

    @property
    def warning(self) -> str | None:
        """A sentence about lost signatures; None where none was lost."""
        if not self.unsigned:
            return None
        keys = ", ".join(f"{name[:12]}…" for name in self.unsigned)
        return f"the report changed, and what key {keys} had signed is gone; sign it again with --sign-key"


async def score_again(folder: RunFolder, request: RunRequest, sign_key: Path | None = None) -> ScoringResult:
    """Score by the rubrics of `request`, which `run.yaml` names from then on."""
    check_verdicts(request)
    # Verdicts lie in files that can be edited: before numbers are made of them, they are read again from the
    # answers.
    await check_judged(folder, request)
    scored = await score(folder, request, sign_key)
    await folder.write(request)
    return scored


async def score(folder: RunFolder, request: RunRequest, sign_key: Path | None = None) -> ScoringResult:
    """Write page, numbers and scores next to the outputs. ReportFailed and UsageError say why it cannot be."""
    record = read_run_record(folder.run_json)
    # Parts of older versions do not say which URL gave a row.
    urls = list(read_manifest(folder.manifest).asked) or record["settings"]["urls"]
    report_request = Request(
        rubric=request.rubrics[0].reference,
        dataset=folder.inputs,
        evaluation=find_judged_output(folder, request),
        errors=folder.outputs,
        names={
            "dataset": request.source.location.rpartition("/")[2],
            "model": request.model,
            "inferenceService": ", ".join(urls),
        },
        reducers=request.reducers,
        group_by=request.group_by,
        cluster_by=request.cluster_by,
        more=tuple(rubric.reference for rubric in request.rubrics[1:]),
        records={RUN_FILE: request_text(request).encode()},
        row_pages=True,
        spending=spending(accounts(folder, request)),
        further=judging_files(folder, request),
        further_store=folder.root,
    )
    key = None if sign_key is None else signing_key(sign_key)
    with tempfile.TemporaryDirectory(prefix="steelyard-report-") as scratch:
        report = await make_report(report_request, Path(scratch))
        unsigned = await publish(report, folder.root, key)
    return ScoringResult(report.headlines, unsigned)
