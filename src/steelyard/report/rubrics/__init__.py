"""Rubrics: a module per kind of answer, and `find_rubric`, which finds any installed rubric by its name."""

from steelyard.report.rubrics.find import (
    GROUP,
    BadRubricArgument,
    NoSuchRubric,
    alias,
    find_rubric,
)

__all__ = ["GROUP", "BadRubricArgument", "NoSuchRubric", "alias", "find_rubric"]
