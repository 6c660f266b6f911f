"""Measurement: rows that a method has computed of other data."""

from typing import Literal

from steelyard_schema.analysis import AnalysisFields
from steelyard_schema.base import DyffEntity
from steelyard_schema.method import MeasurementSpec


class Measurement(MeasurementSpec, AnalysisFields, DyffEntity):
    """Rows that a method has computed of other data."""

    kind: Literal["Measurement"] = "Measurement"
    """Kind of the entity: Measurement."""
