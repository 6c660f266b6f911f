"""Errors of a request name the field, what is allowed, and the value."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard.api.http.errors import invalid
from steelyard_schema.faults import LONGEST_VALUE
from steelyard_schema.kubernetes import QUANTITY_PATTERN, Quantity
from steelyard_schema.requests import CREATE_REQUESTS
from steelyard_schema.requests.base import AccountName, EntityReference


class Part(BaseModel):
    """A part of a request; there may be several."""

    model_config = ConfigDict(extra="forbid")

    size: int


class SampleRequest(BaseModel):
    """A request with one field of each sort."""

    model_config = ConfigDict(extra="forbid")

    count: Annotated[int, Field(le=9)] = 1
    memory: Annotated[str, Field(pattern="^[0-9]+$")] = "1"
    parts: list[int] = []
    part: Part | None = None
    storage: Annotated[str, Field(pattern=QUANTITY_PATTERN)] = "1Gi"
    account: AccountName = "me"
    dataset: EntityReference = "0" * 32
    limit: Quantity | Literal["Unlimited"] = "1"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"count": 2**63 - 1}, "count: should be less than or equal to 9, and is 9223372036854775807"),
        ({"count": None}, "count: should be a valid integer, and is null"),
        ({"memory": "1e999"}, "memory: should match pattern '^[0-9]+$', and is '1e999'"),
        ({"parts": {"a": 1}}, "parts: should be a list"),
        (
            {"storage": "1e999"},
            "storage: should be a quantity of Kubernetes below 8Ei, such as 500m, 2 or 4Gi, and is '1e999'",
        ),
        (
            {"account": "Bad Name!"},
            "account: should be at most 63 letters, digits, hyphens, dots and underscores, with a letter or a digit "
            "at both ends, and is 'Bad Name!'",
        ),
        (
            {"dataset": "x@v1"},
            "dataset: should be an id, of 32 digits and letters from a to f, or FAMILY@TAG with the id of a family, "
            "and is 'x@v1'",
        ),
        (
            {"limit": "ten"},
            "limit: should be a quantity of Kubernetes below 8Ei, such as 500m, 2 or 4Gi or 'Unlimited', and is 'ten'",
        ),
        ({"count": 10**5000}, "count: "),
        (
            {"colour": "red"},
            "colour: is not a field here, with the value 'red'; there are account, count, dataset, limit, memory, "
            "part, parts, storage",
        ),
        (
            {"part": {"size": 1, "colour": "red"}},
            "part.colour: is not a field here, with the value 'red'; there are size",
        ),
        ({"part": {}}, "part.size: is missing"),
        ({"memory": "\ud800"}, "memory: "),
    ],
)
def test_a_wrong_value_is_repeated(body: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SampleRequest.model_validate(body)
    refusal = invalid(caught.value, SampleRequest)
    assert refusal.detail.startswith(said)
    refusal.response()


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ValidationError) as caught:
        SampleRequest.model_validate({"memory": "x" * 100_000})
    assert len(invalid(caught.value).detail) < LONGEST_VALUE + 80


NODE = {"name": "ask", "request": {"kind": "PipelineEvaluationRequest", "dataset": "a" * 32, "colour": 1}}


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (
            "Model",
            {"source": {"kind": "Mock", "colour": 1}},
            "source.colour: is not a field here, with the value 1; there",
        ),
        (
            "Model",
            {"schemaVersion": "0.1", "colour": [1]},
            "colour: is not a field here; there are accelerators, account",
        ),
        ("Dataset", {"artifacts": [{"path": "a", "colour": 1}]}, "the value 1; there are digest, kind, path"),
        (
            "Pipeline",
            {"nodes": {"ask": NODE}},
            "colour: is not a field here, with the value 1; there are client, dataset",
        ),
    ],
)
def test_what_is_allowed_in_place_of_a_field_is_named_at_every_depth(
    kind: str, body: dict[str, object], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        CREATE_REQUESTS[kind].model_validate(body)
    assert said in invalid(caught.value, CREATE_REQUESTS[kind]).detail
