"""Names of rubrics: those of their entry points, the short ones, and the nearest to a misspelt one.

The API, runs and reports call it; the first two do not import rubrics, which is slow.
"""

import difflib
import re
from collections.abc import Iterable

GROUP = "steelyard.rubrics"
"""Group of the entry points."""


def alias(name: str) -> str:
    """Return the name on the command line: `exact-match` for `text.ExactMatch`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name.rpartition(".")[2]).lower()


def list_names(full: Iterable[str]) -> frozenset[str]:
    """Return all names of rubrics, from those of their entry points."""
    return frozenset(spelling for name in full for spelling in (name, alias(name)))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelt one probably stands for; None if no name is near."""
    lower = {spelling.lower(): spelling for spelling in sorted(known)}
    near = difflib.get_close_matches(name.lower().replace("_", "-"), lower, 1, 0.75)
    return lower[near[0]] if near else None
