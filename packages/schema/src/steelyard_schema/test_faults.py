"""Faults of a validation are reported in one line, each with its path, its value and what is allowed."""

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from steelyard_schema.faults import exception_text, faults_text


class Step(BaseModel):
    """A configuration with one field."""

    model_config = ConfigDict(extra="forbid")

    size: int


WRONG = """spec.size: should be a valid integer, unable to parse string as an integer, and is 'x'; \
spec.sise: is not a field here, with the value 2; there are size"""


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"size": "x", "sise": 2}, WRONG),
        ({}, "spec.size: is missing"),
        ([], "spec: should be an object with fields such as size"),
    ],
)
def test_all_faults_in_one_line(content: object, text: str) -> None:
    with pytest.raises(ValidationError) as error:
        Step.model_validate(content)
    assert faults_text(error.value, "spec.", Step) == text


def test_an_exception_is_reported_in_one_line() -> None:
    with pytest.raises(ValidationError) as error:
        Step.model_validate({"size": 1, "sise": 2})
    assert exception_text(error.value) == "ValidationError: sise: is not a field here, with the value 2"
    assert exception_text(ValueError("no")) == "ValueError: no"
    assert exception_text(MemoryError()) == "MemoryError"
