"""Tests of how the suite of dyff-audit's published tests compares their outcomes with the known ones."""

from collections.abc import Sequence

import pytest

from tests.engines.dyff_audit.suite import differences

KNOWN = {"test_a::test_two": "needs an image"}


@pytest.mark.parametrize(
    ("outcomes", "lines"),
    [
        (("passed", "failed", "skipped"), []),
        (("failed", "failed", "skipped"), ["test_a::test_one fails", "0 tests pass, and 1 should"]),
        (
            ("passed", "passed", "skipped"),
            [
                "test_a::test_two is passed, and should fail: needs an image",
                "2 tests pass, and 1 should",
            ],
        ),
        (("skipped", "failed", "skipped"), ["0 tests pass, and 1 should"]),
        (("passed", "skipped", "skipped"), ["test_a::test_two is skipped, and should fail: needs an image"]),
        (("passed",), ["test_a::test_two is not there, and should fail: needs an image"]),
    ],
    ids=[
        "as known",
        "another test fails",
        "a known failure passes",
        "a test is skipped",
        "a known failure is skipped",
        "a known failure is not run",
    ],
)
def test_every_difference_from_the_known_outcomes_is_told(
    outcomes: Sequence[str], lines: Sequence[str]
) -> None:
    names = ("test_a::test_one", "test_a::test_two", "test_a::test_three")
    assert differences(dict(zip(names, outcomes, strict=False)), KNOWN, 1) == lines
