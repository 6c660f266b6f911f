"""Draws evaluations and counts how often their intervals hold the truth."""

from dataclasses import dataclass

import numpy as np

from tests.coverage.simulations import SIMULATIONS

LEAST = 0.93
"""Intervals that hold the truth less often are not printed."""


@dataclass(frozen=True)
class Held:
    """One case of a simulation."""

    simulation: str
    case: str
    printed: float
    """Share of the evaluations that print an interval."""
    missed: float
    """Share of all evaluations whose printed interval misses the truth."""
    drawn: int

    @property
    def coverage(self) -> float:
        """Share of the evaluations that print no interval without the truth."""
        return 1 - self.missed

    @property
    def too_low(self) -> bool:
        """True where the coverage is below what is promised, and that is no chance of so many draws."""
        return self.coverage < LEAST - 3 * float(np.sqrt(LEAST * (1 - LEAST) / self.drawn))


def measure(simulation: str, case: str, drawn: int, seed: int = 0) -> Held:
    """Measure `drawn` evaluations of a case."""
    drawer = SIMULATIONS[simulation].cases[case]
    truth, draw = drawer() if callable(drawer) else drawer
    chance = np.random.default_rng(seed)
    printed = missed = 0
    for _ in range(drawn):
        estimate = draw(chance)
        if estimate.low is not None and estimate.high is not None:
            printed += 1
            missed += not estimate.low - 1e-9 <= truth <= estimate.high + 1e-9
    return Held(simulation, case, printed / drawn, missed / drawn, drawn)
