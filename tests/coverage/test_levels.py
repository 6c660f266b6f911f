"""Every p value that is printed keeps its level, and no interval contradicts it."""

import pytest

from tests.coverage.levels import TESTS, count_alarms


@pytest.mark.parametrize("test", TESTS)
def test_a_test_of_equal_systems_is_seldom_significant(test: str) -> None:
    alarms = count_alarms(test, 120)
    assert not alarms.too_many, alarms
    assert not alarms.contradictions, alarms


@pytest.mark.soak
@pytest.mark.parametrize("test", TESTS)
def test_a_test_keeps_its_level(test: str) -> None:
    alarms = count_alarms(test, 2000, seed=1)
    assert not alarms.too_many, alarms
    assert not alarms.contradictions, alarms
