"""Analyses: methods of users, which turn datasets, evaluations and measurements into a measurement or a safety case.

A method imports `AnalysisContext` and `conclusion` from here. The step `run_analysis` calls `run.py`, which runs the
method in a process of its own.
"""

from steelyard_evaluation.analysis.cards import Card, conclusion
from steelyard_evaluation.analysis.context import AnalysisContext

__all__ = ["AnalysisContext", "Card", "conclusion"]
