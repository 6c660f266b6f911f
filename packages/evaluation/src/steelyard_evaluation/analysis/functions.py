"""Methods that are a Python function: `function(arguments, **inputs)`, as dyff-audit calls it.

`arguments` are texts by keyword, each input is a pyarrow dataset. For a measurement the function returns or yields its
rows, or writes its Parquet files itself; for a safety case it writes `index.html` into the output.
"""

from collections.abc import Callable

from steelyard_evaluation.analysis.context import AnalysisContext
from steelyard_evaluation.analysis.importing import find
from steelyard_evaluation.analysis.tables import PART, parse_declared_schema, write_rows
from steelyard_schema.method import ForeignMethod


class Arguments(dict[str, str]):
    """Arguments by keyword, whose KeyError names the arguments that the caller gave; its text becomes the message of
    the analysis."""

    def __missing__(self, keyword: str) -> str:
        raise KeyError(f"there is no argument {keyword!r}; given: {', '.join(self) or 'none'}")


def run_function(context: AnalysisContext, method: ForeignMethod, name: str) -> None:
    """Run the function, and write the rows that it returns."""
    function: Callable[..., object] = find(name, "function")
    inputs = {keyword: context.dataset(keyword) for keyword in context.inputs}
    rows = function(Arguments(context.arguments), **inputs)
    if method.output.measurement is not None and rows is not None:
        schema = parse_declared_schema(method.output.measurement.schema_.arrowSchema)
        print(f"wrote {write_rows(rows, schema, context.output / PART)} rows", flush=True)
