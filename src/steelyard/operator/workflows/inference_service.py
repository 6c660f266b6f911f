"""InferenceService: nothing runs; its runner is checked, then it is Ready."""

from datetime import datetime

from steelyard.operator.attempts import Situation
from steelyard.operator.children import Children
from steelyard.operator.conditions import Phase, failed, memory_of
from steelyard.operator.desired import Desired
from steelyard.operator.runners import runner_fault
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import before_all, ended
from steelyard.types import Json


def reconcile(service: Json, children: Children, now: datetime, settings: OperatorSettings) -> Desired:
    """What should exist for an InferenceService."""
    at = Situation(service, children, now, settings)
    if early := before_all(at, "BuildFailed"):
        return early
    if service["spec"].get("builder"):
        message = "spec.builder: building images is not implemented; name a runner's image instead"
        return ended(at, failed("NotImplemented", message), memory_of(service))
    if fault := runner_fault(service["spec"]):
        return ended(at, failed(fault.reason, f"spec.{fault.message}"), memory_of(service))
    return ended(at, Phase("ready", "Ready", "the runner can be started"), memory_of(service))
