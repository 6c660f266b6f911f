"""Feed from the dataset to the backlog: rows that are not finished yet, as bodies of calls, read ahead in a
thread.
"""

import asyncio
from collections.abc import Iterator

from steelyard_evaluation.engine.backlog import Backlog, Work
from steelyard_evaluation.engine.plan import BadInput, Plan
from steelyard_evaluation.engine.rowset import RowSet
from steelyard_evaluation.engine.source import Row, Source


async def feed(source: Source, plan: Plan, finished: RowSet, backlog: Backlog) -> None:
    """Put every call that is not in `finished` into `backlog`, in the order of the dataset, and close it."""
    batches = _batches(source, plan, finished)
    # `next` has a default because StopIteration cannot pass through a future.
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        await backlog.put(batch)
    backlog.close()


def _batches(source: Source, plan: Plan, finished: RowSet) -> Iterator[list[Work]]:
    replications = len(plan.replications)
    complete = finished.complete(replications)
    for rows in source.read(skip=complete):
        yield [
            Work(position, row.index, replication, body, unsendable)
            for row in rows
            for body, unsendable in [_body(plan, row)]
            for replication in range(replications)
            if (position := row.ordinal * replications + replication) not in finished
        ]


def _body(plan: Plan, row: Row) -> tuple[bytes, str | None]:
    try:
        return plan.request(row.data), None
    except BadInput as error:
        return b"", str(error)
