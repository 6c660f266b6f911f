"""Specs of the custom resources: the refusals, and their fields."""

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from steelyard_schema.base import Metrics, MetricValue
from steelyard_schema.data import File
from steelyard_schema.ids import replication_id
from steelyard_schema.inference_service import ContainerImageSource, VolumeMount, VolumeMountScratch
from steelyard_schema.locations import LOCATION_PATTERN, check_location, complete_location
from steelyard_schema.resources import EvaluationResourceSpec, ReportResourceSpec
from steelyard_schema.steps import epoch

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
    assert [".".join(map(str, fault["loc"])) for fault in refused.value.errors()] == [field]


@pytest.mark.parametrize("path", ["../x", "a/../x", "/x", "a//x", ".", "", "a/"])
def test_a_file_that_would_leave_its_volume_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="path"):
        File(path=path, size=1)
    assert File(path="a b/.c%20/..d", size=1).path


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"host": "https://example.org"}, "host"),
        ({"host": "a_b"}, "host"),
        ({"name": "Upper"}, "name"),
        ({"digest": "sha256:0"}, "digest"),
    ],
)
def test_an_image_is_named_in_full(change: dict[str, str], field: str) -> None:
    image = {"host": "localhost:5000", "name": "steelyard/runner-sklearn", "digest": "sha256:" + "0" * 64}
    assert ContainerImageSource.parse(image).dump() == image
    with pytest.raises(ValidationError) as refused:
        ContainerImageSource.parse(image | change)
    assert [fault["loc"] for fault in refused.value.errors()] == [(field,)]


@pytest.mark.parametrize("path", ["data", "/", "/../etc", "/a/../../etc", "//a", "/a:b", "/a/."])
def test_a_mount_lies_in_the_pod(path: str) -> None:
    with pytest.raises(ValidationError, match="mountPath"):
        VolumeMount(kind="Scratch", name="m", mountPath=path, scratch=VolumeMountScratch(capacity="1Gi"))


def test_times_are_utc_and_metrics_finite() -> None:
    when = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    metrics = Metrics(
        data={
            "m": [MetricValue(labels={}, timestamp=when, value=value) for value in (1.0, math.inf, math.nan)]
        }
    )
    assert metrics.dump()["data"]["m"] == [{"labels": {}, "timestamp": "2026-01-01T00:00:00Z", "value": 1.0}]


def test_an_evaluation_needs_its_service() -> None:
    with pytest.raises(ValidationError, match="inferenceSession"):
        EvaluationResourceSpec.parse({"id": "a", "account": "b", "dataset": "d"})


def test_replications_and_epochs_are_as_published() -> None:
    assert replication_id("0" * 32, 0) == "b6c54489-38a0-5f50-a60a-fd8d76219cae".replace("-", "")
    with pytest.raises(ValueError, match=r"spec.id: 'flowers' should be 32 digits and letters from a to f"):
        replication_id("flowers", 0)
    created = datetime(2026, 1, 1, tzinfo=UTC)
    assert epoch(created, "abcdef01-2345", 3) == "1767225600-abcdef01-0003"
    assert epoch(created, "f", 9) < epoch(datetime(2026, 1, 2, tzinfo=UTC), "a", 1)
