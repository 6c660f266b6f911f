"""Every interval that can be printed is simulated, and holds the truth as often as it says."""

import pytest

from tests.coverage.makers import makers
from tests.coverage.measure import measure
from tests.coverage.simulations import MADE_BY, NO_INTERVALS_OF_THEIR_OWN, SIMULATIONS


def test_every_function_that_makes_an_interval_is_simulated() -> None:
    assert makers() == {*MADE_BY, *NO_INTERVALS_OF_THEIR_OWN}
    tried = {name for names in MADE_BY.values() for name in names}
    assert tried <= {*SIMULATIONS}


@pytest.mark.parametrize("simulation", SIMULATIONS)
def test_a_case_of_each_number_holds_the_truth(simulation: str) -> None:
    case = next(iter(SIMULATIONS[simulation].cases))
    assert not measure(simulation, case, 60).too_low


@pytest.mark.soak
@pytest.mark.parametrize(
    ("simulation", "case"),
    [(name, case) for name, simulation in SIMULATIONS.items() for case in simulation.cases],
)
def test_every_interval_holds_the_truth(simulation: str, case: str) -> None:
    held = measure(simulation, case, 2000)
    assert not held.too_low, held
