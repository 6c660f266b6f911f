"""Calls of a rubric's code: whatever it raises becomes a failure of the report, in one line.

The code of a rubric may be of others. The error that a rubric should raise for a row is ValueError (see scoring.py).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steelyard_common.errors import SteelyardError
from steelyard_evaluation.report.errors import RubricFailed
from steelyard_schema.faults import exception_line

_OURS = __name__.partition(".")[0]


@contextmanager
def rubric_code(kind: type, where: str, but: type[Exception] = SteelyardError) -> Iterator[None]:
    """Raise RubricFailed for an error of the code of a rubric of this class; `where` says which code it is.

    Errors of ours, and those of the type `but`, are left as they are.
    """
    try:
        yield
    except (SteelyardError, but):
        raise
    # It may raise anything, and may also end the process.
    except (Exception, SystemExit) as error:
        raise rubric_failed(kind, where, error) from error


def rubric_failed(kind: type, where: str, error: BaseException) -> RubricFailed:
    """Return the failure of a report by an error of its rubric's code, with the place in it and what to do."""
    line = exception_line(error, _folders(kind))
    ours = kind.__module__.partition(".")[0] == _OURS
    advice = "This should not happen, please report it" if ours else "Correct its code there"
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix(f"{__package__}.")
    return RubricFailed(f"rubric {name} fails {where}: {line}. {advice}", error, ours=ours)


def _folders(kind: type) -> list[Path]:
    """Return the folders from which the outermost package of a rubric is imported."""
    package = sys.modules.get(kind.__module__.partition(".")[0])
    # A package has folders, of which one without __init__.py may have several; a module has a file alone.
    places = [*getattr(package, "__path__", ())] or [getattr(package, "__file__", None)]
    return [Path(place).absolute().parent for place in places if place]
