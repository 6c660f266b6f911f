"""States that the searches take for the same have the same future, in every scenario: all of them are compared."""

import pytest

from steelyard.operator.simulation.merging import MergingCheck
from steelyard.operator.simulation.search import Search
from tests.exploration import training_cases
from tests.exploration.search import Case, parameters
from tests.exploration.test_workflows import CASES
from tests.exploration.training_cases import AT_WORK, CHANGED


def test_the_states_of_an_operator_that_knows_its_writes_do_not_follow_themselves() -> None:
    """Compare with two faults allowed: only then are states of a round before the last still to be looked at."""
    search = Search(training_cases.remembering(), limit=300, floor=2)
    assert search.run().states >= 300


@pytest.mark.soak
@pytest.mark.parametrize("case", parameters([*CASES, *AT_WORK, *CHANGED]))
def test_states_that_are_taken_for_the_same_have_the_same_future(case: Case) -> None:
    search = MergingCheck(case.make(), limit=case.short.states, floor=1, after=case.after)
    search.run()
    assert search.merged
