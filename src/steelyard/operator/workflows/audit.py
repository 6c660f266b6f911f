"""Audit: a Job puts the reports of a procedure into one document; then it is Complete."""

from datetime import datetime

from steelyard.operator.attempts import Situation
from steelyard.operator.children import Children
from steelyard.operator.conditions import Phase
from steelyard.operator.desired import Desired
from steelyard.operator.jobs import Step
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import before_all, single_step
from steelyard.types import Json

REASONS = frozenset({"StepFailed", "BadRequest", "BadImage", "Timeout", "NotImplemented", "NameConflict"})


def reconcile(audit: Json, children: Children, now: datetime, settings: OperatorSettings) -> Desired:
    """What should exist for an Audit."""
    at = Situation(audit, children, now, settings)
    if early := before_all(at, "BadRequest"):
        return early
    step = Step("run", "run_audit", settings.step_deadline_seconds)
    done = Phase("complete", "Complete", "the audit's page is in storage")
    return single_step(at, step, running="Running", done=done, default="StepFailed", known=REASONS)
