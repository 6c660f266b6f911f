"""DataSource: a Job fetches the files into storage; then it is Ready."""

from datetime import datetime

from steelyard.operator.attempts import ReconcileContext
from steelyard.operator.children import Children
from steelyard.operator.conditions import Phase, fail, read_history
from steelyard.operator.desired import DesiredState
from steelyard.operator.jobs import Step
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import common_decision, end, single_step
from steelyard_common.types import Json
from steelyard_schema.source_addresses import source_address

REASONS = frozenset({"FetchFailed", "BadImage", "Timeout", "NameConflict"})


def reconcile(source: Json, children: Children, now: datetime, settings: OperatorSettings) -> DesiredState:
    """Decide what should exist for a DataSource."""
    context = ReconcileContext(source, children, now, settings)
    if early := common_decision(context, "FetchFailed"):
        return early
    spec = source["spec"]
    try:
        source_address(spec["sourceKind"], spec.get("source"))
    except ValueError as error:
        return end(context, fail("FetchFailed", f"spec.source: {error}"), read_history(source))
    step = Step("run", "fetch_data_source", settings.step_deadline_seconds)
    done = Phase("ready", "Ready", "the files are in storage")
    return single_step(context, step, running="Fetching", done=done, default="FetchFailed", known=REASONS)
