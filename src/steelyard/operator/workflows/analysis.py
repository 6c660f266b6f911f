"""Analysis: a Job runs a method, which makes a measurement or a safety case; then it is Complete."""

from datetime import datetime

from steelyard.operator.attempts import ReconcileContext
from steelyard.operator.children import Children
from steelyard.operator.conditions import Phase, fail, read_history
from steelyard.operator.desired import DesiredState
from steelyard.operator.jobs import Step, storage_secret
from steelyard.operator.pods import image_name, repository
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import common_decision, end, single_step
from steelyard_common.types import Json

# fmt: off
REASONS = frozenset(
    {"StepFailed", "MethodFailed", "MethodMissing", "OutputInvalid", "BadRequest", "BadImage", "Timeout",
     "NotImplemented", "NameConflict"}
)
# fmt: on
_REFUSED_IMAGE = (
    "spec.method.analysisImage: should not be there: an image of the method's own would get the credentials of the "
    "storage. An administrator can add packages to the image of the steps (operator.images.steps)"
)


def reconcile(analysis: Json, children: Children, now: datetime, settings: OperatorSettings) -> DesiredState:
    """Decide what should exist for an Analysis."""
    context = ReconcileContext(analysis, children, now, settings)
    if early := common_decision(context, "BadRequest"):
        return early
    image = analysis["spec"]["method"].get("analysisImage")
    # The API may name the platform's own image in methods that name none.
    if image and f"{image['host']}/{image['name']}" == repository(settings.images.steps):
        image = None
    # The image decides which program runs as the step, and the step's container has these credentials.
    if image and storage_secret(analysis, settings):
        return end(context, fail("NotImplemented", _REFUSED_IMAGE), read_history(analysis))
    step = Step(
        "run",
        "run_analysis",
        settings.step_deadline_seconds,
        image=image_name(image, settings) if image else None,
    )
    done = Phase("complete", "Complete", "the method's output is in storage")
    return single_step(context, step, running="Running", done=done, default="StepFailed", known=REASONS)
