"""One training job of any kind: what should exist for it now. Pure: the edge carries it out."""

from datetime import datetime
from typing import Any

from steelyard.operator.children import Children
from steelyard.operator.desired import Desired
from steelyard.operator.settings import OperatorSettings

Json = dict[str, Any]


def reconcile(resource: Json, children: Children, now: datetime, settings: OperatorSettings) -> Desired:
    """`children` are the job's own, and those without a controller that carry its labels."""
    return Desired(status=dict(resource.get("status") or {}))
