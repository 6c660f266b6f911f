import re
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from steelyard.schema.ids import replication_id
from steelyard.schema.locations import LOCATION_PATTERN, check_location, complete_location
from steelyard.schema.resources import EvaluationResourceSpec, ReportResourceSpec
from steelyard.schema.status import KINDS, TERMINAL, allows, statuses, transitions
from steelyard.schema.steps import epoch

REPORT = {
    "id": "a",
    "account": "b",
    "rubric": "r",
    "evaluation": "e",
    "dataset": "d",
    "inferenceService": "s",
}


@pytest.mark.parametrize(
    "location", ["datasets/digits", "file:///a/b", "s3://bucket/a", "gs://b", "a..b/.c", "az://c/x"]
)
def test_a_location_is_a_url_or_a_prefix(location: str) -> None:
    assert check_location(location) == location
    assert re.match(LOCATION_PATTERN, location)


@pytest.mark.parametrize(
    "location",
    [
        "",
        ".",
        "..",
        "../a",
        "a/../b",
        "a/./b",
        "a//b",
        "/a",
        "a/",
        "file://host/a",
        "http://x",
        "a%2e%2e/b",
        "file:///",
        "a b",
    ],
)
def test_a_location_that_leaves_its_place_is_refused(location: str) -> None:
    with pytest.raises(ValueError, match="should be"):
        check_location(location)
    assert not re.match(LOCATION_PATTERN, location)


def test_a_prefix_is_completed_by_the_setting() -> None:
    assert complete_location("a/b", "s3://bucket/x/") == "s3://bucket/x/a/b"
    assert complete_location("file:///a", "s3://bucket") == "file:///a"
    with pytest.raises(ValueError, match="setting storage is empty"):
        complete_location("a", "")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"rubrik": "r"}, "rubrik"),
        ({"rubric": 1}, "rubric"),
        ({"storage": {"output": "../x"}}, "storage.output"),
        ({"storage": {"inputs": {"dataset": "a/../b"}}}, "storage.inputs.dataset"),
        ({"id": "a/b"}, "id"),
        ({"ttlSecondsAfterFinished": -1}, "ttlSecondsAfterFinished"),
        ({"rubric": ...}, "rubric"),
    ],
)
def test_a_wrong_spec_is_refused_with_the_field(change: dict[str, Any], field: str) -> None:
    content = {key: value for key, value in (REPORT | change).items() if value is not ...}
    with pytest.raises(ValidationError) as refused:
        ReportResourceSpec.parse(content)
    assert [".".join(map(str, each["loc"])) for each in refused.value.errors()] == [field]


def test_an_evaluation_needs_its_service() -> None:
    with pytest.raises(ValidationError, match="inferenceSession"):
        EvaluationResourceSpec.parse({"id": "a", "account": "b", "dataset": "d"})


def test_replications_and_epochs_are_as_published() -> None:
    assert replication_id("0" * 32, 0) == "b6c54489-38a0-5f50-a60a-fd8d76219cae".replace("-", "")
    created = datetime(2026, 1, 1, tzinfo=UTC)
    assert epoch(created, "abcdef01-2345", 3) == "1767225600-abcdef01-0003"
    assert epoch(created, "f", 9) < epoch(datetime(2026, 1, 2, tzinfo=UTC), "a", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_terminal_statuses_stick_and_deleted_is_the_end(kind: str) -> None:
    for change in transitions(kind):
        assert {change.before, change.after} <= {*statuses(kind), "Terminated"}
        assert change.before != "Deleted"
        if change.before in TERMINAL:
            assert change.after == "Deleted"
    assert not allows(kind, "orchestrator", "Admitted", "Admitted")
    assert not allows(kind, "informer", "Deleted", statuses(kind)[-3])
