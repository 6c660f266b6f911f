"""Report: a Job scores the verified outputs; then it is Complete."""

from datetime import datetime

from steelyard.operator.attempts import Situation
from steelyard.operator.children import Children
from steelyard.operator.conditions import Phase
from steelyard.operator.desired import Desired
from steelyard.operator.jobs import Step
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import before_all, single_step
from steelyard.types import Json

REASONS = frozenset(
    {"StepFailed", "NoSuchRubric", "BadRequest", "BadImage", "Timeout", "NotImplemented", "NameConflict"}
)


def reconcile(report: Json, children: Children, now: datetime, settings: OperatorSettings) -> Desired:
    """What should exist for a Report."""
    at = Situation(report, children, now, settings)
    if early := before_all(at, "BadRequest"):
        return early
    step = Step("run", "run_report", settings.step_deadline_seconds)
    done = Phase("complete", "Complete", "the report is in storage")
    return single_step(at, step, running="Running", done=done, default="StepFailed", known=REASONS)
