"""The first fault of a dataset's rows that no answer could mend, found in a process of its own.

The API starts it (`python -m`) when an evaluation, a report or an audit procedure is created: what a dataset unpacks
to, and what a schema or a pattern costs, can end this process and no other. It holds the columns of the dataset's files
that it is asked about, in files that have nothing else.
"""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

import orjson
from pydantic import BaseModel

from steelyard_common.types import shorten

CPU_SECONDS = 10
"""Time for one dataset. What takes longer is left to the step, as is what needs more memory."""
MEMORY_BYTES = 256 << 20
_ROWS = 4096
_MOST_TEXT = 500
"""Most characters of a fault, which may repeat a value of the dataset."""


class Question(BaseModel):
    """A dataset, and the rubric to judge its rows by: the API writes it to the standard input."""

    rubric: str | None
    """None: the numbers of the rows alone are looked at."""
    location: str
    files: list[str]
    columns: list[str]


def find_fault(question: Question) -> str | None:
    """Return the first fault, without the location's name unless it is one of all rows. Raises what pyarrow raises."""
    # Late, so that the limits hold for what they take.
    from steelyard_common.bounded_parquet import batches
    from steelyard_evaluation.engine.rows import BadColumn, row_numbers, to_rows
    from steelyard_evaluation.engine.shape import INDEX
    from steelyard_evaluation.report.errors import RowFault
    from steelyard_evaluation.report.row_checks import RowCheck, UniqueIndexes, rubric_checks
    from steelyard_evaluation.report.rubrics import find_rubric

    columns = list(dict.fromkeys([INDEX, *question.columns]))
    checks: list[RowCheck] = [UniqueIndexes()]
    if question.rubric is not None:
        checks += rubric_checks(find_rubric(question.rubric), question.columns, question.location)
    try:
        for file in question.files:
            for batch in batches(Path(file), _ROWS, columns):
                row_numbers(batch.column(INDEX))
                for row in to_rows(batch):
                    for check in checks:
                        check.take(row)
        for check in checks:
            check.finish()
    except BadColumn as fault:
        return f"{INDEX} {fault}"
    except RowFault as fault:
        return str(fault)
    return None


def main() -> None:
    """Read a question, and write its answer: a text or null, as JSON."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # rows of strangers stay out of files
    os.nice(10)
    with suppress(OSError):  # where the machine has too little memory, this process ends, not the API
        Path("/proc/self/oom_score_adj").write_text("1000")
    fault = find_fault(Question.model_validate_json(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(orjson.dumps(None if fault is None else shorten(fault, _MOST_TEXT)))


if __name__ == "__main__":
    main()
