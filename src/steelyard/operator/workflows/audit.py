"""Audit: a Job puts the reports of a procedure into one document; then it is Complete."""

from datetime import datetime

from steelyard.operator.attempts import ReconcileContext
from steelyard.operator.children import Children
from steelyard.operator.conditions import Phase
from steelyard.operator.desired import DesiredState
from steelyard.operator.jobs import Step
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import common_decision, single_step
from steelyard_common.types import Json

REASONS = frozenset({"StepFailed", "BadRequest", "BadImage", "Timeout", "NotImplemented", "NameConflict"})


def reconcile(audit: Json, children: Children, now: datetime, settings: OperatorSettings) -> DesiredState:
    """Decide what should exist for an Audit."""
    context = ReconcileContext(audit, children, now, settings)
    if early := common_decision(context, "BadRequest"):
        return early
    step = Step("run", "run_audit", settings.step_deadline_seconds)
    done = Phase("complete", "Complete", "the audit's page is in storage")
    return single_step(context, step, running="Running", done=done, default="StepFailed", known=REASONS)
