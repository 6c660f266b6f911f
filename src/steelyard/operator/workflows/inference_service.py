"""InferenceService: nothing runs; its runner is checked, then it is Ready."""

from datetime import datetime

from steelyard.operator.attempts import ReconcileContext
from steelyard.operator.children import Children
from steelyard.operator.conditions import Phase, fail, read_history
from steelyard.operator.desired import DesiredState
from steelyard.operator.runners import runner_fault
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import common_decision, end
from steelyard_common.types import Json


def reconcile(service: Json, children: Children, now: datetime, settings: OperatorSettings) -> DesiredState:
    """Decide what should exist for an InferenceService."""
    context = ReconcileContext(service, children, now, settings)
    if early := common_decision(context, "BuildFailed"):
        return early
    if service["spec"].get("builder"):
        message = "spec.builder: building images is not implemented; name a runner's image instead"
        return end(context, fail("NotImplemented", message), read_history(service))
    if fault := runner_fault(service["spec"]):
        return end(context, fail(fault.reason, f"spec.{fault.message}"), read_history(service))
    return end(context, Phase("ready", "Ready", "the runner can be started"), read_history(service))
