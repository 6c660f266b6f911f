"""Documents that an audit reads: a report's report.json, and the audit.json of an earlier audit.

Both are our own files, but they come from storage: a fault is reported with the name of its field. Only the fields that
an audit needs are listed here; others are ignored.
"""

from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard_common.types import Json
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.results import Metric
from steelyard_evaluation.report.statistics.intervals import Estimate
from steelyard_schema.faults import fault_message


class _Numbers(BaseModel):
    # Audits outlive versions: a report of a newer one may say more than is known here.
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Digest(_Numbers):
    """A file with its digest. `what` is its role: Dataset, Model, Outputs, Scores …"""

    what: str
    path: str
    size: int | None = None
    sha256: str


class MetricNumbers(_Numbers):
    """A metric of a report, with its interval."""

    name: str
    title: str
    unit: Literal["share", "number"] = "share"
    value: float | None
    low: float | None
    high: float | None
    method: str
    n: int
    scale: tuple[float, float] | None = None

    @property
    def estimate(self) -> Estimate:
        return Estimate(self.value, self.low, self.high, self.method, self.n)

    @property
    def metric(self) -> Metric:
        """The metric as the report had it."""
        return Metric(self.name, self.title, self.estimate, self.unit, scale=self.scale)


class RowNumbers(_Numbers):
    """Numbers of rows according to verification."""

    total: int
    present: int
    errors: int


class ReportNumbers(_Numbers):
    """Content of report.json."""

    schemaVersion: Literal["0.1"]  # noqa: N815 - as everywhere in our JSON
    rubric: str
    headline: str
    names: dict[str, str]
    run: Json
    rows: RowNumbers
    metrics: list[MetricNumbers]
    limits: list[str]
    datasetView: list[Json] = Field(default_factory=list)  # noqa: N815
    evidence: list[Digest]


class EarlierReport(_Numbers):
    """A report of an earlier audit, as far as a comparison needs it."""

    report: str
    dataset: str = ""
    rubric: str
    data: list[str]
    datasetView: list[Json] = Field(default_factory=list)  # noqa: N815
    scores: Digest
    metrics: list[MetricNumbers] = Field(default_factory=list)


class EarlierSystem(_Numbers):
    """Subject of an earlier audit."""

    inferenceService: str  # noqa: N815
    name: str
    model: str = ""
    modelName: str = ""  # noqa: N815
    modelFiles: list[str] = Field(default_factory=list)  # noqa: N815


class EarlierAudit(_Numbers):
    """Content of audit.json."""

    schemaVersion: Literal["0.1"]  # noqa: N815
    audit: str
    system: EarlierSystem
    requirements: list[EarlierReport]


Read = TypeVar("Read", bound=_Numbers)


def parse_numbers(kind: type[Read], data: bytes, where: str) -> Read:
    """Parse a document; `where` names it in the message. Raises ReportFailed with the name of the wrong field."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(map(str, fault["loc"])) or "the whole"
        message = f"{where} cannot be used: {field}: {fault_message(fault, kind)}"
        raise ReportFailed("BadReport", message) from error
