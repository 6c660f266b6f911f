"""Names of the objects that the operator makes: they fit, and no two are alike."""

import pytest

from steelyard.operator.names import CHILD_LIMIT, child_name


@pytest.mark.parametrize(
    ("name", "suffix", "expected"),
    [
        ("evaluation-a1", "-client-a1", "evaluation-a1-client-a1"),
        ("e" * 47, "-client-a1", "e" * 47 + "-client-a1"),
    ],
)
def test_a_name_that_fits_stays(name: str, suffix: str, expected: str) -> None:
    assert child_name(name, suffix) == expected


@pytest.mark.parametrize("name", ["e" * 48, "e" * 253, "dotted.name", "9lives", "e" * 38 + "-" * 9 + "f"])
def test_a_name_that_does_not_fit_is_cut_and_stays_its_own(name: str) -> None:
    made = child_name(name, "-client-a1")
    assert len(made) <= CHILD_LIMIT
    assert made.endswith("-client-a1")
    assert made[0].isalpha()
    assert all(char.isalnum() or char == "-" for char in made)
    assert made != child_name(name + "x", "-client-a1")
