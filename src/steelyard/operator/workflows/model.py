"""Model: a Job fetches the files into storage; then it is Ready."""

from datetime import datetime

from steelyard.operator.attempts import ReconcileContext
from steelyard.operator.children import Children
from steelyard.operator.conditions import Phase, fail, read_history
from steelyard.operator.desired import DesiredState
from steelyard.operator.jobs import Step
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import common_decision, end, single_step
from steelyard_common.types import Json

FETCHED = frozenset({"GitLFS", "HuggingFaceHub", "Upload"})
REASONS = frozenset({"FetchFailed", "BadImage", "Timeout", "NotImplemented", "NameConflict"})


def reconcile(model: Json, children: Children, now: datetime, settings: OperatorSettings) -> DesiredState:
    """Decide what should exist for a Model."""
    context = ReconcileContext(model, children, now, settings)
    if early := common_decision(context, "FetchFailed"):
        return early
    source = model["spec"]["source"]["kind"]
    match source:
        case "Mock":
            return end(
                context, Phase("ready", "Ready", "a mock model has nothing to fetch"), read_history(model)
            )
        case _ if source not in FETCHED:
            message = f"spec.source.kind: {source} is not implemented; there are {', '.join(sorted(FETCHED))} and Mock"
            return end(context, fail("NotImplemented", message), read_history(model))
        case _:
            step = Step("run", "fetch_model", settings.step_deadline_seconds)
            done = Phase("ready", "Ready", "the files are in storage")
            return single_step(
                context, step, running="Fetching", done=done, default="FetchFailed", known=REASONS
            )
