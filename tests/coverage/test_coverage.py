"""Every interval that can be printed is simulated, and holds the truth as often as it says."""

import pytest

from tests.coverage.makers import makers
from tests.coverage.measure import measure, measure_closely
from tests.coverage.rare_cases import NO_LARGE
from tests.coverage.table import MADE_BY, NO_INTERVALS_OF_THEIR_OWN, SIMULATIONS

MOST_ROWS_IN_CI = 1000


def test_every_function_that_makes_an_interval_is_simulated() -> None:
    assert makers() == {*MADE_BY, *NO_INTERVALS_OF_THEIR_OWN}
    tried = {name for names in MADE_BY.values() for name in names}
    assert tried <= {*SIMULATIONS}


def test_each_number_is_tried_over_its_range() -> None:
    """Cases go to thousands of rows, and stand in clusters, too."""
    for name, simulation in SIMULATIONS.items():
        sizes = [case.rows for case in simulation.cases.values()]
        assert max(sizes) >= 3000, name
        assert any("clusters" in case or "lm-eval groups" in name for case in simulation.cases), name


REGIMES = {
    "a rare class or event": lambda case: case.startswith("rare: "),
    "rare large values": lambda case: case.startswith("rare large: "),
    "clusters": lambda case: "clusters" in case,
}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("simulation", SIMULATIONS)
def test_each_kind_of_interval_is_tried_where_it_is_hardest(simulation: str, regime: str) -> None:
    if regime == "rare large values" and simulation in NO_LARGE:
        assert not any(map(REGIMES[regime], SIMULATIONS[simulation].cases))
    else:
        assert any(map(REGIMES[regime], SIMULATIONS[simulation].cases))


@pytest.mark.parametrize("simulation", SIMULATIONS)
def test_some_rare_cases_of_each_number_hold_the_truth(simulation: str) -> None:
    cases = SIMULATIONS[simulation].cases
    small = [name for name in cases if name.startswith("rare") and cases[name].rows <= MOST_ROWS_IN_CI]
    for case in small[::4]:
        held = measure(simulation, case, 120)
        assert not held.too_low, held


@pytest.mark.parametrize("simulation", SIMULATIONS)
def test_some_cases_of_each_number_hold_the_truth(simulation: str) -> None:
    cases = SIMULATIONS[simulation].cases
    small = [
        name for name, case in cases.items() if case.rows <= MOST_ROWS_IN_CI and not name.startswith("rare")
    ]
    for case in (small[0], small[len(small) // 2], small[-1]):
        held = measure(simulation, case, 160)
        assert not held.too_low, held


@pytest.mark.soak
@pytest.mark.parametrize(
    ("simulation", "case"),
    [(name, case) for name, simulation in SIMULATIONS.items() for case in simulation.cases],
)
def test_every_interval_holds_the_truth(simulation: str, case: str) -> None:
    held = measure_closely(simulation, case, 2000)
    assert not held.too_low, held
