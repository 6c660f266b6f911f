"""Statistics of scores: intervals, clusters, calibration, power, rankings. Users import `Estimate` from here."""

from steelyard_evaluation.report.statistics.intervals import Estimate

__all__ = ["Estimate"]
