"""Behaviour of every object store, beside the suites of the other engines. It is the suite of steelyard_evaluation."""

from steelyard_evaluation.storage.contract import CASES, Case

__all__ = ["CASES", "Case"]
