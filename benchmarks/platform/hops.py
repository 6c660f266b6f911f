"""Benchmark of each hop on a running `steelyard up`: create, visible, Admitted, ended; one by one, and many
at once.

Three kinds of work: audit procedures, which nothing runs for; mock models, which pass through Kubernetes without a Pod;
and evaluations of a few rows by a mock session that runs already. Called by `__main__.py`.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.platform.watch import Life, Watch, watching
from steelyard.client import AsyncClient, presets
from steelyard.local.state import Ready, StateDir
from steelyard_schema.base import DyffEntity
from tests.integration.small import ACCOUNT, RUBRIC, write_rows

ROWS = 10
PATIENCE = 600.0
Create = Callable[[int], Awaitable[DyffEntity]]


@dataclass(frozen=True)
class Span:
    """Milliseconds."""

    p50: float
    p99: float

    def __str__(self) -> str:
        return f"{self.p50:,.0f} / {self.p99:,.0f}"


@dataclass(frozen=True)
class Hops:
    """`per_second`: of the whole case, from the first request to the last end."""

    what: str
    count: int
    per_second: float
    answered: Span
    visible: Span
    admitted: Span | None
    ended: Span | None


def span(values: Sequence[float]) -> Span:
    ordered = sorted(values)
    return Span(statistics.median(ordered) * 1e3, ordered[int(len(ordered) * 0.99)] * 1e3)


def summed(what: str, lives: Sequence[Life], seconds: float, *, runs: bool) -> Hops:
    """Each hop begins where the one before ended; `visible` counts from the request on, as `answered` does."""
    return Hops(
        what,
        len(lives),
        len(lives) / seconds,
        span([live.answered - live.begun for live in lives]),
        span([(live.visible or 0) - live.begun for live in lives]),
        span([(live.admitted or 0) - (live.visible or 0) for live in lives]) if runs else None,
        span([(live.ended or 0) - (live.admitted or 0) for live in lives]) if runs else None,
    )


async def one(create: Create, number: int, watch: Watch) -> Life:
    begun = time.perf_counter()
    entity = await create(number)
    life = Life(type(entity).__name__, begun, time.perf_counter())
    watch.follow(entity.id, life)
    await life.over(PATIENCE)
    return life


async def case(what: str, create: Create, count: int, at_once: int, watch: Watch, *, runs: bool) -> Hops:
    """`count` of them, `at_once` at any time."""
    slots = asyncio.Semaphore(at_once)

    async def limited(number: int) -> Life:
        async with slots:
            return await one(create, number, watch)

    began = time.perf_counter()
    lives = await asyncio.gather(*(limited(number) for number in range(count)))
    how = "one by one" if at_once == 1 else f"{at_once} at once"
    print(f"{what}, {how}: {count} done", file=sys.stderr)
    return summed(f"{what}, {how}", lives, time.perf_counter() - began, runs=runs)


@dataclass(frozen=True)
class Ground:
    """Entities that the cases refer to."""

    dataset: str
    session: str


async def prepare_ground(client: AsyncClient, folder: Path) -> Ground:
    """An uploaded dataset, and a mock session that is ready."""
    rows = await asyncio.to_thread(write_rows, folder / "rows", ROWS)
    dataset = await client.datasets.create_from_folder(rows, account=ACCOUNT, name="rows")
    service = await client.inferenceservices.create(
        account=ACCOUNT, name="mock", runner=presets.mock(), interface=presets.classification("classify")
    )
    made = await client.inferencesessions.create(
        account=ACCOUNT, inferenceService=service.id, useSpotPods=False
    )
    session = made.inferencesession.id
    await client.inferencesessions.wait(session, timeout=PATIENCE)
    return Ground(dataset.id, session)


async def measure(state: StateDir, ready: Ready, folder: Path, count: int) -> list[Hops]:
    async with AsyncClient(ready.api, ready.token) as client, watching(state.path / "view.db") as watch:
        ground = await prepare_ground(client, folder)

        async def procedure(number: int) -> DyffEntity:
            need = {"dataset": ground.dataset, "rubric": RUBRIC}
            return await client.auditprocedures.create(
                account=ACCOUNT, name=f"procedure-{number}", requirements=[need]
            )

        async def model(number: int) -> DyffEntity:
            mock, memory = {"kind": "Mock"}, {"memory": "1Mi"}
            return await client.models.create(
                account=ACCOUNT, name=f"model-{number}", artifact=mock, source=mock,
                storage={"medium": "Mock"}, resources=memory,
            )  # fmt: skip

        async def evaluation(_: int) -> DyffEntity:
            return await client.evaluations.create(
                account=ACCOUNT, dataset=ground.dataset, inferenceSessionReference=ground.session
            )

        results = []
        for at_once in (1, 50):
            results.append(await case("audit procedures", procedure, 4 * count, at_once, watch, runs=False))
        for at_once in (1, 4 * count):
            results.append(await case("mock models", model, 4 * count, at_once, watch, runs=True))
        for at_once in (1, count):
            results.append(await case("evaluations", evaluation, count, at_once, watch, runs=True))
        return results
