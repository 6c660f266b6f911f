"""Tests of two equally good systems, or groups: how often each p value that is printed is below 0.05."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from steelyard_evaluation.report.comparison.differences import Shares, estimate_difference
from steelyard_evaluation.report.statistics.groups import difference_from_rest
from steelyard_evaluation.report.statistics.intervals import Estimate
from tests.coverage import populations, rare
from tests.coverage.layouts import Chance, Layout, Population, independent, replicated, unequal

LEVEL = 0.05
Test: TypeAlias = Callable[[Chance], tuple[Estimate, float | None]]
"""Draws one comparison and gives its interval and its p value."""

LAYOUTS = (
    *map(independent, (10, 50, 300)),
    replicated(12, 5, 0.5),
    replicated(50, 5, 0.95),
    unequal("one half", 12, 0.5),
    unequal("Zipf", 12, 0.95),
    unequal("Zipf", 50, 0.5),
)
NO_GAIN: dict[str, Population] = {
    "right and wrong, 10% each": populations.choice((-1.0, 0.0, 1.0), (0.1, 0.8, 0.1)),
    "rare: right and wrong, 1% each": populations.choice((-1.0, 0.0, 1.0), (0.01, 0.98, 0.01)),
    "once against 5, p = 0.95": rare.once_against(5, 0.95),
    "once against 9, p = 0.98": rare.once_against(9, 0.98),
    "rare large: 1% lose 0.95": rare.one_sided(0.01, 0.95),
    "rare large: 10% lose 0.9": rare.one_sided(0.1, 0.9),
    "30% lose 0.3": rare.one_sided(0.3, 0.3),
}
GROUPS: dict[str, Population] = {
    "p = 0.5": populations.hits(0.5),
    "rare: p = 0.98": populations.hits(0.98),
    "scores": populations.beta(2, 1),
    "rare large: 1% of 0.9": populations.choice((0.02, 0.9), (0.99, 0.01)),
}


def _paired(layout: Layout, population: Population) -> Test:
    clusters = None if layout.rows == layout.sizes.size else layout.clusters

    def draw(rng: Chance) -> tuple[Estimate, float | None]:
        steps = layout.draw(rng, population)
        shares = None
        if np.isin(steps, (-1.0, 0.0, 1.0)).all():
            ones = np.ones(steps.size, np.int64)
            shares = (Shares((steps > 0).astype(np.int64), ones), Shares((steps < 0).astype(np.int64), ones))
        estimate, test = estimate_difference(steps, clusters, 1.0, shares)
        return estimate, test.p

    return draw


def _grouped(here: Layout, rest: Layout, population: Population) -> Test:
    clusters = np.concatenate([here.clusters, here.sizes.size + rest.clusters])
    inside = np.arange(clusters.size) < here.rows

    def draw(rng: Chance) -> tuple[Estimate, float | None]:
        rows = np.concatenate([here.draw(rng, population), rest.draw(rng, population)])
        return difference_from_rest(rows, inside, clusters, (0.0, 1.0))

    return draw


def _tests() -> Iterable[tuple[str, Test]]:
    for name, population in NO_GAIN.items():
        for layout in LAYOUTS:
            yield f"paired, {layout.name}, {name}", _paired(layout, population)
    for name, population in GROUPS.items():
        for here, rest in (
            *((independent(size), independent(200)) for size in (3, 10, 50)),
            (unequal("Zipf", 12, 0.5), unequal("Zipf", 50, 0.5)),
            (replicated(12, 5, 0.5), independent(200)),
        ):
            yield f"group, {here.name} against {rest.name}, {name}", _grouped(here, rest, population)


TESTS: dict[str, Test] = dict(_tests())


@dataclass(frozen=True)
class Alarms:
    """One test of systems that do not differ."""

    test: str
    alarms: int
    """Comparisons with a p value below 0.05."""
    contradictions: int
    """Comparisons whose interval leaves out 0 though p is not below 0.05, or the other way round."""
    drawn: int

    @property
    def too_many(self) -> bool:
        """True if the level is above 5 % by more than chance explains in so many draws."""
        return self.alarms / self.drawn > LEVEL + 3 * float(np.sqrt(LEVEL * (1 - LEVEL) / self.drawn))


def count_alarms(test: str, drawn: int, seed: int = 0) -> Alarms:
    rng = np.random.default_rng(seed)
    alarms = contradictions = 0
    for _ in range(drawn):
        estimate, p = TESTS[test](rng)
        if p is None or estimate.low is None or estimate.high is None:
            continue
        alarms += p < LEVEL
        contradictions += (p < LEVEL) != (estimate.low > 0 or estimate.high < 0)
    return Alarms(test, alarms, contradictions, drawn)
