"""Rubrics: a module per kind of answer, and `find_rubric`, which finds any installed rubric by its name."""

from steelyard_evaluation.report.rubrics.find import BadRubricArgument, NoSuchRubric, find_rubric
from steelyard_schema.rubric_names import GROUP, alias

__all__ = ["GROUP", "BadRubricArgument", "NoSuchRubric", "alias", "find_rubric"]
