"""Tests of what the transport makes of an answer."""

import pytest

from steelyard_local_kubernetes.apiserver.transport import limit_warnings


@pytest.mark.parametrize(
    ("warnings", "sent"),
    [
        (["a", "b", "a"], ["a", "b"]),
        (["x" * 4096], ["x" * 4096]),
        (["x" * 4096, "y"], ["x" * 256, "y"]),
        (
            [f"{number:03}" + "x" * 253 for number in range(40)],
            [f"{number:03}" + "x" * 253 for number in range(16)],
        ),
    ],
    ids=["repeated", "as long as allowed", "too long", "too many"],
)
def test_warnings_are_bounded_as_those_of_a_real_server(warnings: list[str], sent: list[str]) -> None:
    assert list(limit_warnings(warnings)) == sent
