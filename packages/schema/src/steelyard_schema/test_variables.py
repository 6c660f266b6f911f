"""Sizes of variables and arguments, known before they are made."""

from typing import Any

import pytest

from steelyard_schema.bounds import ARGUMENT_BYTES
from steelyard_schema.variables import START_BYTES, TooLarge, expand, size_faults

DOUBLING = [{"name": "A0", "value": "xx"}] + [
    {"name": f"A{level}", "value": f"$(A{level - 1})$(A{level - 1})"} for level in range(1, 40)
]


def faults(env: list[dict[str, Any]] = [], **texts: list[str]) -> list[str]:  # noqa: B006
    return [f"{field} {fault}" for field, fault in size_faults(env, texts)]


@pytest.mark.parametrize(
    ("env", "texts", "field"),
    [
        (DOUBLING, {}, "env[16].value"),
        ([{"name": "A", "value": "x" * 3000}], {"args": ["$(A)" * 60]}, "args[0]"),
        ([{"name": "A", "value": "x" * 3000}], {"command": ["sh", "$(A)" * 60]}, "command[1]"),
        ([{"name": "A", "value": "x" * 130_000}], {"args": ["$(A)"] * 60}, "env"),
        ([{"name": f"A{i}", "value": "x" * 130_000} for i in range(20)], {}, "env"),
        ([{"name": "Ä", "value": "ä" * 65_536}], {}, "env[0].value"),
        ([{"name": "A", "value": "$$" * 140_000}], {}, "env[0].value"),
    ],
)
def test_what_no_linux_can_start_is_refused(env: list[dict[str, Any]], texts: Any, field: str) -> None:
    (fault,) = faults(env, **texts)
    assert fault.startswith(f"{field} may not take more than ")
    assert str(ARGUMENT_BYTES) in fault or str(START_BYTES) in fault


@pytest.mark.parametrize(
    ("env", "texts"),
    [
        (DOUBLING[:16], {}),
        ([{"name": "A", "value": "x" * (ARGUMENT_BYTES - 2)}], {"args": ["$(A)"]}),
        ([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}], {"args": ["$(A)"] * 99}),
        ([{"name": "A", "value": "x" * 100_000}, {"name": "A", "value": "y"}] * 30, {}),
        ([{"name": "A", "value": "$(OTHER)" * 10_000}], {"args": ["$(A)"]}),
    ],
)
def test_what_can_be_started_is_taken(env: list[dict[str, Any]], texts: Any) -> None:
    assert faults(env, **texts) == []


def test_a_text_is_not_made_beyond_its_limit() -> None:
    assert len(expand("$(A)" * 10, {"A": "x" * 100}, 1000)) == 1000
    with pytest.raises(TooLarge, match="1000 bytes"):
        expand("$(A)" * 11, {"A": "x" * 100}, 1000)
    with pytest.raises(TooLarge):
        expand("$(A)" * 500, {"A": "ä" * 1_000_000}, 1000)
    assert expand("$(A)" * 1000, {"A": ""}, 1000) == ""
