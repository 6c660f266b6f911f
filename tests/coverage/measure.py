"""Draws evaluations and counts how often their intervals hold the truth."""

from dataclasses import dataclass

import numpy as np

from tests.coverage.table import SIMULATIONS

LEAST = 0.93
"""Intervals that hold the truth less often are not printed."""
FEWEST_INTERVALS = 20
"""Fewest intervals whose coverage says something."""
_MANY_ROWS = 5000
"""Evaluations of so many rows are drawn half as often."""
_DOUBTFUL = 0.943
"""A case whose intervals hold the truth less often is drawn again, four times as often."""


@dataclass(frozen=True)
class SimulationCase:
    """One case of a simulation."""

    simulation: str
    case: str
    intervals: int
    """Evaluations that print an interval."""
    missed: int
    """Evaluations whose interval misses the truth."""
    drawn: int

    @property
    def printed(self) -> float:
        """Share of the evaluations that print an interval."""
        return self.intervals / self.drawn

    @property
    def coverage(self) -> float:
        """Share of the printed intervals that hold the truth; 1 where hardly one is printed."""
        return 1 - self.missed / self.intervals if self.intervals >= FEWEST_INTERVALS else 1.0

    @property
    def error(self) -> float:
        """Standard error that the simulation itself has where the coverage is the least one."""
        return float(np.sqrt(LEAST * (1 - LEAST) / max(1, self.intervals)))

    @property
    def too_low(self) -> bool:
        """True if the coverage is below the promised one by more than chance explains in so many draws."""
        return self.coverage < LEAST - 3 * self.error


def measure(simulation: str, case: str, drawn: int, seed: int = 0) -> SimulationCase:
    """Measure a case by `drawn` evaluations; a dear one by a quarter, and one of very many rows by half of that."""
    made, dear = SIMULATIONS[simulation].cases[case], SIMULATIONS[simulation].dear
    drawn //= (4 if dear else 1) * (2 if made.rows >= _MANY_ROWS else 1)
    rng, truth = np.random.default_rng(seed), made.truth
    printed = missed = 0
    for _ in range(drawn):
        estimate = made.draw(rng)
        if estimate.low is not None and estimate.high is not None:
            printed += 1
            missed += not estimate.low - 1e-9 <= truth <= estimate.high + 1e-9
    return SimulationCase(simulation, case, printed, missed, drawn)


def measure_closely(simulation: str, case: str, drawn: int) -> SimulationCase:
    """Measure a case, and a doubtful one again: of many cases the least is often low by chance alone."""
    held = measure(simulation, case, drawn)
    return held if held.coverage >= _DOUBTFUL else measure(simulation, case, 4 * drawn, seed=1)
