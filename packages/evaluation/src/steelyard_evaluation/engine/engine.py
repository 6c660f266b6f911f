"""Runs an evaluation: every row of the dataset, every replication, one durable answer each.

`evaluate` is called by the client step and by the command line. It ends when all rows are durable, or raises; either
way earlier answers are kept, and the next attempt goes on from there.
"""

import asyncio
from dataclasses import dataclass, field

from steelyard_common.discovery import Discovery
from steelyard_evaluation.engine.attempt import Attempt, Environment
from steelyard_evaluation.engine.caps import Usage
from steelyard_evaluation.engine.checkpoint import write_checkpoint
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.engine.indexes import IndexMap
from steelyard_evaluation.engine.journal import adopt, clear
from steelyard_evaluation.engine.lean import seldom_collecting
from steelyard_evaluation.engine.output import Writer
from steelyard_evaluation.engine.plan import Plan
from steelyard_evaluation.engine.progress import Progress
from steelyard_evaluation.engine.record import describe, record
from steelyard_evaluation.engine.resume import resume
from steelyard_evaluation.engine.source import open_source
from steelyard_evaluation.storage.store import Store, probe


@dataclass(frozen=True)
class Stores:
    """Stores of the dataset and of the output."""

    dataset: Store
    output: Store


@dataclass(frozen=True)
class Summary:
    """Summary of one attempt."""

    total: int
    resumed: int
    row_errors: int
    retries: int
    refused: int = 0
    """Calls that a replica did not admit (429)."""
    tokens: Usage = field(default_factory=Usage)
    """Tokens of all attempts so far."""
    spend: float | None = None
    """Cost of the tokens; None without prices."""


async def evaluate(
    plan: Plan, stores: Stores, discovery: Discovery, epoch: str, environment: Environment
) -> Summary:
    """Bring the output to where every row is durable.

    EvaluationFailed says why it cannot be; StorageFull and other storage errors come through as they are.
    """
    # Everything below relies on create-only writes; a store that replaces objects instead would let two
    # attempts mix.
    await probe(stores.output)
    claimed = await claim(stores.output, epoch)
    source = await open_source(stores.dataset)
    indexes = await asyncio.to_thread(IndexMap, source)
    # Before resuming: rows of an output that was begun with other inputs must not count as finished.
    await record(
        stores.output,
        describe(plan.identity, plan.settings, source.files, environment.now().isoformat()),
        stores.dataset.url,
    )
    total = source.rows * len(plan.replications)
    resumed = await resume(stores.output, indexes, plan.replications, total, plan.usage)
    # Rows of parts that never came, because their writer died first.
    resumed, adopted = await adopt(stores.output, epoch, resumed, environment.log)
    # From here on, parts of lower epochs count only where this checkpoint names them.
    await write_checkpoint(stores.output, epoch, 0, resumed)
    await clear(stores.output, epoch)
    environment.log.info("evaluation begins", rows=total, finished=len(resumed.rows), epoch=epoch)
    progress = Progress(
        stores.output,
        total,
        environment.now,
        done=len(resumed.rows),
        # Durable answers leave out those that died in memory, the meter those of before it was kept: the
        # larger is nearer to the bill.
        tokens=max(resumed.tokens or Usage(), environment.meter.before, key=lambda usage: usage.total),
        lost=environment.meter.losses,
        caps=plan.caps,
    )
    environment.watch(progress)
    writer = Writer(stores.output, claimed, plan.schema, plan.client.batchSize, resumed, adopted)
    with seldom_collecting():
        await Attempt(plan, source, resumed.rows, writer, progress, environment).run(discovery)
    await clear(stores.output, epoch)
    # A higher epoch may have come after the last part: then its attempt reports the end, not this one.
    await claimed.check()
    return Summary(
        total=total,
        resumed=len(resumed.rows),
        row_errors=progress.row_errors,
        retries=progress.retries,
        refused=progress.refused,
        tokens=progress.tokens,
        spend=plan.caps.spend(progress.tokens),
    )
