"""Functions and classes of modules, by their full names."""

import importlib
import importlib.util
from typing import Any

from steelyard_evaluation.analysis.errors import method_missing


def find(name: str, what: str) -> Any:
    """Return what `package.module.name` names. Raises AnalysisFailed where there is none.

    An error in the code of the module itself passes.
    """
    module, _, member = name.rpartition(".")
    if not module:
        raise method_missing(
            f"{what} {name!r}: should be a full name, such as package.module.{name or 'name'}"
        )
    if not _exists(module):
        raise method_missing(f"{what} {name!r}: there is no module {module!r} in the method's modules")
    imported = importlib.import_module(module)
    if not hasattr(imported, member):
        raise method_missing(f"{what} {name!r}: the module {module!r} has no {member!r}")
    return getattr(imported, member)


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    # find_spec imports the packages above the module: one that is missing, or is a module without others in it.
    except ModuleNotFoundError as error:
        parents = [module.rsplit(".", n)[0] for n in range(module.count(".") + 1)]
        if error.name in parents:
            return False
        raise
    except ValueError:  # an empty name, or a module that was made by hand
        return False
