"""Answers that cannot be read as one number or one option: the column with the reason, and a table of reasons."""

from collections import Counter

import pyarrow as pa

from steelyard.report.results import Table
from steelyard.report.rubrics.rows import schema

UNREAD = schema(("unread", pa.string()))
"""Columns of every rubric, and the reason why nothing was read; null if something was, or there is no answer."""
_MOST = 15


def unread_tables(scores: pa.Table) -> tuple[Table, ...]:
    """Return a table of the reasons by frequency, without the details of single answers behind a colon."""
    reasons = [reason.partition(":")[0] for reason in scores["unread"].to_pylist() if reason is not None]
    if not reasons:
        return ()
    counts = sorted(Counter(reasons).items(), key=lambda row: (-row[1], row[0]))[:_MOST]
    note = "These answers count as wrong: what can be read in two ways is not guessed."
    return (Table("Answers that were not read", ("Reason", "Answers"), tuple(counts), note),)
