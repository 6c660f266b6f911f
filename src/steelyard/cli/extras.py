"""Names the extra of a command whose packages are not installed: one line says which `pip install` mends it.

`needs` stands around every command that imports more than the base installation has.
"""

import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NoReturn, ParamSpec, TypeVar

from steelyard_common.errors import UsageError, leaves

P = ParamSpec("P")
T = TypeVar("T")

PACKAGES = frozenset(
    {
        "steelyard",
        "steelyard_common",
        "steelyard_evaluation",
        "steelyard_kube",
        "steelyard_local_kubernetes",
        "steelyard_schema",
    }
)
ONLY_IN_LOCAL = "steelyard_local_kubernetes"
"""A module that no smaller extra brings."""


class MissingExtra(UsageError):
    """A command needs packages that this installation does not have."""

    def __init__(self, module: str, *extras: str) -> None:
        super().__init__(f"this needs {module}, which is not installed: {install(*extras)}")


def install(*extras: str) -> str:
    """The command that brings the packages of the extras."""
    return f"pip install 'steelyard[{','.join(extras)}]'"


def needs(*extras: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator: where an import of ours finds no module, the command raises MissingExtra."""

    def decorate(command: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(command)
        def call_command(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return command(*args, **kwargs)
            # A task group wraps what its tasks raise.
            except (ModuleNotFoundError, ExceptionGroup) as error:
                raise_missing(error, *extras)

        return call_command

    return decorate


def raise_missing(error: Exception, *extras: str) -> NoReturn:
    """Raise MissingExtra for the module that is missing, or the error itself where it says something else."""
    for leaf in leaves(error):
        # A module that a user's rubric or another package imports is not in our extras.
        if isinstance(leaf, ModuleNotFoundError) and leaf.name and _raised_by_us(leaf.__traceback__):
            raise MissingExtra(leaf.name.partition(".")[0], *extras) from error
    raise error


def check_local() -> None:
    """Raise MissingExtra before anything is started or written, where the extra `local` is not installed."""
    if importlib.util.find_spec(ONLY_IN_LOCAL) is None:
        raise MissingExtra(ONLY_IN_LOCAL, "local")


def _raised_by_us(traceback: TracebackType | None) -> bool:
    """Return whether the innermost frame is in a module of one of our packages."""
    file = None
    while traceback is not None:
        file, traceback = traceback.tb_frame.f_code.co_filename, traceback.tb_next
    ours = [module.__file__ for name, module in list(sys.modules.items()) if name in PACKAGES]
    return file is not None and any(Path(file).is_relative_to(Path(path).parent) for path in ours if path)
