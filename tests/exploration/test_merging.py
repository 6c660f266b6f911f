"""States that the searches take for the same have the same future, in every scenario: all of them are compared."""

import pytest

from steelyard.operator.simulation.merging import MergingCheck
from tests.exploration.search import Case, parameters
from tests.exploration.test_workflows import CASES
from tests.exploration.training_cases import AT_WORK, CHANGED


@pytest.mark.soak
@pytest.mark.parametrize("case", parameters([*CASES, *AT_WORK, *CHANGED]))
def test_states_that_are_taken_for_the_same_have_the_same_future(case: Case) -> None:
    search = MergingCheck(case.make(), limit=case.short.states, floor=1, after=case.after)
    search.run()
    assert search.merged
