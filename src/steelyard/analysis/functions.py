"""Methods that are a Python function: `function(arguments, **inputs)`, as dyff-audit calls it.

`arguments` are texts by keyword, each input is a pyarrow dataset. For a measurement the function returns or yields its
rows, or writes its Parquet files itself; for a safety case it writes `index.html` into the output.
"""

from collections.abc import Callable

from steelyard.analysis.context import AnalysisContext
from steelyard.analysis.importing import find
from steelyard.analysis.tables import PART, declared_schema, write_rows
from steelyard.schema.method import ForeignMethod


def run_function(context: AnalysisContext, method: ForeignMethod, name: str) -> None:
    """Run the function, and write the rows that it returns."""
    function: Callable[..., object] = find(name, "function")
    inputs = {keyword: context.dataset(keyword) for keyword in context.inputs}
    rows = function(dict(context.arguments), **inputs)
    if method.output.measurement is not None and rows is not None:
        schema = declared_schema(method.output.measurement.schema_.arrowSchema)
        print(f"wrote {write_rows(rows, schema, context.output / PART)} rows", flush=True)
