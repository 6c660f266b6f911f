"""Steelyard: train, serve, evaluate and audit AI systems, on Kubernetes or on one machine.

The names of this module are loaded when they are used: an import of it alone takes no time, and needs the standard
library alone, as programs beside the Pods do.
"""

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all else here
__all__ = ["AsyncClient", "Client", "__version__", "compare", "evaluate"]

if TYPE_CHECKING:
    from steelyard.client import AsyncClient, Client
    from steelyard_common import __version__
    from steelyard_evaluation import compare, evaluate
else:

    def __getattr__(name: str) -> object:
        homes = {
            "AsyncClient": "steelyard.client",
            "Client": "steelyard.client",
            "__version__": "steelyard_common",
            "compare": "steelyard_evaluation",
            "evaluate": "steelyard_evaluation",
        }
        if name not in homes:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(homes[name]), name)
