"""SafetyCase: a page with scores and curves that a method has made of other data."""

from typing import Literal

from steelyard.schema.analysis import AnalysisFields
from steelyard.schema.base import DyffEntity
from steelyard.schema.method import SafetyCaseSpec


class SafetyCase(SafetyCaseSpec, AnalysisFields, DyffEntity):
    """A page with scores and curves that a method has made of other data."""

    kind: Literal["SafetyCase"] = "SafetyCase"
    """Kind of the entity: SafetyCase."""
