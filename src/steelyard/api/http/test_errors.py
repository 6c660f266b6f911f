"""Errors of a request name the field, what is allowed, and the value."""

from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard.api.http.errors import LONGEST_VALUE, invalid
from steelyard.schema.kubernetes import QUANTITY_PATTERN


class Asked(BaseModel):
    """A request with one field of each sort."""

    model_config = ConfigDict(extra="forbid")

    count: Annotated[int, Field(le=9)] = 1
    memory: Annotated[str, Field(pattern="^[0-9]+$")] = "1"
    parts: list[int] = []
    storage: Annotated[str, Field(pattern=QUANTITY_PATTERN)] = "1Gi"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"count": 2**63 - 1}, "count: Input should be less than or equal to 9, and is 9223372036854775807"),
        ({"count": None}, "count: Input should be a valid integer, and is None"),
        ({"memory": "1e999"}, "memory: String should match pattern '^[0-9]+$', and is '1e999'"),
        ({"parts": {"a": 1}}, "parts: Input should be a valid list"),
        (
            {"storage": "1e999"},
            "storage: should be a quantity of Kubernetes below 8Ei, such as 500m, 2 or 4Gi, and is '1e999'",
        ),
        ({"count": 10**5000}, "count: "),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"memory": "\ud800"}, "memory: "),
    ],
)
def test_a_wrong_value_is_repeated(body: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate(body)
    refusal = invalid(caught.value)
    assert refusal.detail.startswith(said)
    refusal.response()


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate({"memory": "x" * 100_000})
    assert len(invalid(caught.value).detail) < LONGEST_VALUE + 80
