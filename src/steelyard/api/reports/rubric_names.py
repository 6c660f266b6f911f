"""Rubrics by name, when a report or a procedure is created: a misspelt one would fail after its evaluation is paid for.

The image of a report may have rubrics that this process does not know, and so may modules. So a name is refused only if
it is nearly that of a rubric of the platform.
"""

from functools import cache
from importlib.metadata import entry_points

from steelyard.api.http.errors import Invalid
from steelyard_schema.rubric_names import GROUP, list_names, nearest


def check_rubric(reference: str, field: str) -> None:
    """Raise Invalid for a name that is unknown, and nearly known."""
    name, known = reference.partition("?")[0], _names()
    if name in known:
        return
    if near := nearest(name, known):
        raise Invalid(f"{field}: there is no rubric {name!r}; did you mean {near}?", field=field)


@cache
def _names() -> frozenset[str]:
    return list_names(entry_points(group=GROUP).names)
