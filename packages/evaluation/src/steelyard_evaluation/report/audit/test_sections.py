"""Tests of an audit's sections."""

import pyarrow as pa

from steelyard_evaluation.report.audit.inputs import AuditedReport
from steelyard_evaluation.report.audit.numbers import Digest, MetricNumbers, ReportNumbers, RowNumbers
from steelyard_evaluation.report.audit.sections import make_section
from steelyard_evaluation.report.audit.subject import Requirement
from steelyard_evaluation.report.results import Counts


def make_metric(name: str, title: str) -> MetricNumbers:
    return MetricNumbers(name=name, title=title, value=0.9, low=0.8, high=0.95, method="Wilson", n=10)


def test_a_number_that_is_best_at_zero_is_on_no_axis_with_shares() -> None:
    metrics = [make_metric("accuracy", "Accuracy"), make_metric("calibration_error", "Calibration error")]
    numbers = ReportNumbers(
        schemaVersion="0.1",
        rubric="classification.Classification",
        headline="",
        names={},
        run={},
        rows=RowNumbers(total=1, present=1, errors=0),
        metrics=metrics,
        limits=[],
        evidence=[],
    )
    kept = Digest(what="Scores kept", path="scores/a.parquet", sha256="0" * 64)
    report = AuditedReport("a" * 32, numbers, pa.table({"_index_": [0], "status": ["scored"]}), (), kept)
    requirement = Requirement(1, report, metrics[0].metric, 1, 1, 1, Counts(1, 0, 0), None)
    section = make_section(requirement, [requirement], "")
    assert section.figure is not None
    assert section.figure.table is not None
    assert [title for title, *_ in section.figure.table.rows] == ["Accuracy"]
    assert [metric.title for metric in section.tiles] == ["Accuracy", "Calibration error"]
