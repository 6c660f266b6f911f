"""Layouts of simulated evaluations: rows that are independent, asked several times, or in unequal clusters."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from steelyard_evaluation.report.statistics.intervals import Floats, Integers

Chance: TypeAlias = np.random.Generator


class Population(Protocol):
    """Draws independent rows: a number each, or a row of numbers each."""

    def __call__(self, rng: Chance, rows: int, /) -> Floats: ...


@dataclass(frozen=True)
class Layout:
    """The rows of each cluster, and how alike they are."""

    name: str
    sizes: Integers
    icc: float = 0.0

    @property
    def rows(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def clusters(self) -> Integers:
        """The cluster of each row."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def draw(self, rng: Chance, population: Population) -> Floats:
        """Draw the rows. Any two of a cluster are the same with probability `icc`, else independent.

        Each row is that of its cluster with probability √icc, so that any function of a row has this intraclass
        correlation, and each row by itself is distributed as in the population.
        """
        return population(rng, self.rows + self.sizes.size)[self._picked(rng)]

    def _picked(self, rng: Chance) -> NDArray[np.int64]:
        own, shared = np.arange(self.rows), self.rows + self.clusters
        return np.where(rng.random(self.rows) < np.sqrt(self.icc), shared, own)


def independent(rows: int) -> Layout:
    return Layout(f"n = {rows:,}", np.ones(rows, np.int64))


def replicated(questions: int, times: int, icc: float) -> Layout:
    return Layout(f"{questions:,} questions × {times}, ICC {icc}", np.full(questions, times), icc)


def unequal(kind: str, clusters: int, icc: float) -> Layout:
    """One cluster with as many rows as all others together, or sizes that fall as Zipf's."""
    order = np.arange(clusters)
    if kind == "one half":
        sizes = np.where(order == 0, 5 * (clusters - 1), 5)
    else:
        sizes = np.maximum(1, np.round(200 / (order + 1))).astype(np.int64)
    return Layout(f"{clusters} clusters, {kind}, ICC {icc}", sizes, icc)


INDEPENDENT = tuple(map(independent, (10, 30, 100, 1000, 10_000)))
EVERY = (
    *INDEPENDENT,
    *(replicated(questions, 5, icc) for questions in (10, 50, 2000) for icc in (0.0, 0.5, 0.95)),
    *(
        unequal(kind, clusters, icc)
        for clusters in (5, 12, 50, 500)
        for kind in ("one half", "Zipf")
        for icc in (0.1, 0.5, 0.95)
    ),
)
CORNERS = (
    *INDEPENDENT,
    replicated(10, 5, 0.95),
    replicated(50, 5, 0.5),
    replicated(500, 5, 0.0),
    replicated(2000, 5, 0.95),
    unequal("one half", 12, 0.5),
    unequal("Zipf", 12, 0.95),
    unequal("one half", 50, 0.95),
    unequal("Zipf", 50, 0.5),
    unequal("Zipf", 500, 0.5),
)
"""The corners of `EVERY`, for intervals that take long to make."""
