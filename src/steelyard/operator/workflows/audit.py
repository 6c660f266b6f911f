"""Audit: what it needs (procedures, the reports of an account) comes with the platform, and it says so."""

from datetime import datetime
from typing import Any

from steelyard.operator.attempts import Situation
from steelyard.operator.children import Children
from steelyard.operator.conditions import failed, memory_of
from steelyard.operator.desired import Desired
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.workflows.common import before_all, ended

Json = dict[str, Any]


def reconcile(audit: Json, children: Children, now: datetime, settings: OperatorSettings) -> Desired:
    """What should exist for an Audit."""
    at = Situation(audit, children, now, settings)
    message = "audits need the platform's procedures and reports, and the platform is not implemented yet"
    return before_all(at, "BadRequest") or ended(at, failed("NotImplemented", message), memory_of(audit))
