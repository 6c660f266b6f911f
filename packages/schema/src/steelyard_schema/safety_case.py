"""SafetyCase: a page with scores and curves that a method has made of other data."""

from typing import Literal

from steelyard_schema.analysis import AnalysisFields
from steelyard_schema.base import DyffEntity
from steelyard_schema.method import SafetyCaseSpec


class SafetyCase(SafetyCaseSpec, AnalysisFields, DyffEntity):
    """A page with scores and curves that a method has made of other data."""

    kind: Literal["SafetyCase"] = "SafetyCase"
    """Kind of the entity: SafetyCase."""
