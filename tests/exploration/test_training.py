"""A training job, from every state that a bounded search reaches: whatever happens, it ends as it should."""

import pytest

from tests.exploration.search import Case, explore, parameters
from tests.exploration.training_cases import AT_WORK


@pytest.mark.parametrize("case", parameters(AT_WORK))
def test_whatever_happens_it_ends_where_it_should(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    explore(case, case.short, capsys)


@pytest.mark.soak
@pytest.mark.parametrize("case", parameters(AT_WORK))
def test_whatever_happens_at_length(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    explore(case, case.long, capsys)
