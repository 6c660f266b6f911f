"""Events of both groups: which fields a new one needs."""

import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.rules.events import EVENT, check_core, check_new

TIMED: Json = {
    "metadata": {"name": "e", "namespace": "n"},
    "involvedObject": {"namespace": "n"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingComponent": "a.b/c",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
    "type": "Normal",
}


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({}, []),
        ({"eventTime": None}, ["eventTime"]),
        ({"type": ""}, ["type"]),
        ({"count": 1, "firstTimestamp": "2026-01-01T00:00:00Z"}, ["firstTimestamp", "count"]),
        ({"action": "", "reason": "x" * 129}, ["action", "reason"]),
        ({"reportingComponent": ""}, ["reportingController", "reportingController"]),
    ],
    ids=["a whole one", "no time", "no type", "fields of old", "names", "no controller"],
)
def test_events_of_the_newer_group(changed: Json, fields: list[str]) -> None:
    assert [cause.field for cause in check_new(TIMED | changed, None)][: len(fields) or 1] == fields


def test_events_of_the_core_group_need_no_time() -> None:
    assert not check_core(TIMED | {"eventTime": None, "type": "", "action": ""}, None)
    assert [cause.field for cause in check_core(TIMED | {"action": ""}, None)] == ["action"]


@pytest.mark.parametrize(
    ("event", "refused"),
    [
        (TIMED, False),
        (TIMED | {"involvedObject": {"namespace": "other"}}, False),
        (TIMED | {"involvedObject": {}}, True),
        (TIMED | {"involvedObject": {"namespace": "other"}, "eventTime": None}, True),
    ],
    ids=["its own", "another, with a time", "none, with a time", "another, without a time"],
)
def test_namespaces_of_the_object(event: Json, refused: bool) -> None:
    assert bool(EVENT.check(event, None)) is refused
