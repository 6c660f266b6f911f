"""The engine of CEL, loaded when the first rule needs it, and without its command line: that alone takes 14 MB."""

import importlib
import sys
from functools import cache
from types import ModuleType

_COMMAND_LINE = "cel.cli"


@cache
def load() -> None:
    """Import the engine; from then on `import cel` costs nothing."""
    if _COMMAND_LINE in sys.modules:
        return
    # An empty module in its place: the package imports its command line by itself, and never uses it.
    sys.modules[_COMMAND_LINE] = ModuleType(_COMMAND_LINE)
    try:
        importlib.import_module("cel")
    except ImportError:  # a version that needs something of its command line is imported whole
        del sys.modules[_COMMAND_LINE]
        importlib.import_module("cel")
    finally:
        sys.modules.pop(_COMMAND_LINE, None)
