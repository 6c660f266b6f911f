"""Evaluations of AI systems as a library: what `steelyard eval` and the steps of the platform are made of.

`evaluate` and `compare` are loaded when they are used: an import of this package alone loads nothing else.
"""

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all else here
__all__ = ["compare", "evaluate"]

if TYPE_CHECKING:
    from steelyard_evaluation.runs.functions import compare, evaluate
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            from steelyard_evaluation.runs import functions
        except ModuleNotFoundError as error:
            message = (
                f"{name} needs {error.name}, which is not installed: pip install 'steelyard-evaluation[eval]'"
            )
            raise ModuleNotFoundError(message, name=error.name) from error
        return getattr(functions, name)
