"""The error of a command that runs in the background."""

import pytest

from steelyard.local.detached import error_in


@pytest.mark.parametrize(
    ("output", "error"),
    [
        ("steelyard: log: is not there\n", "log: is not there"),
        ("port 1 is taken; this time it is 2\nsteelyard: log: is not there\n", "log: is not there"),
        ("steelyard: platform ended:\nsteelyard: x\n  y\n", "platform ended:\nsteelyard: x\n  y"),
        ("killed\n", "killed"),
        ("", ""),
    ],
)
def test_what_was_said_before_is_no_part_of_the_error(output: str, error: str) -> None:
    assert error_in(output) == error
