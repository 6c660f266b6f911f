"""Dataset of a DataSource: a Job makes its rows from the source's files; then it is Ready."""

from datetime import datetime

from steelyard.operator.attempts import ReconcileContext
from steelyard.operator.children import Children
from steelyard.operator.conditions import Phase
from steelyard.operator.desired import DesiredState
from steelyard.operator.jobs import Step
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import common_decision, single_step
from steelyard_common.types import Json

REASONS = frozenset({"IngestFailed", "DataSourceMissing", "BadImage", "Timeout", "NameConflict"})


def reconcile(dataset: Json, children: Children, now: datetime, settings: OperatorSettings) -> DesiredState:
    """Decide what should exist for a Dataset that is made from a DataSource."""
    context = ReconcileContext(dataset, children, now, settings)
    if early := common_decision(context, "IngestFailed"):
        return early
    step = Step("run", "ingest_dataset", settings.step_deadline_seconds)
    done = Phase("ready", "Ready", "the rows are in storage")
    return single_step(context, step, running="Ingesting", done=done, default="IngestFailed", known=REASONS)
