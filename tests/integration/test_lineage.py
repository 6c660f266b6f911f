"""Runs of workflows as a receiver of OpenLineage gets them over HTTP, from OpenLineage's own client."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import jsonschema_rs
import orjson
import pytest
from openlineage.client.serde import Serde

from steelyard.local.detached import UpOptions
from steelyard.local.supervisor import start_detached
from steelyard.services.lineage.events import Names, make_event, run_id
from steelyard.services.lineage.lineage import HttpReceiver, NotTaken, Unavailable, receiver_url
from steelyard.services.lineage.occurrences import Occurrence
from steelyard.services.simulation.entities import make_evaluation
from steelyard_common.errors import UsageError
from tests.integration.conftest import Machine, machine_at
from tests.integration.openlineage import Receiver, check, receiver
from tests.integration.small import make

OCCURRENCE = Occurrence("FAIL", datetime(2026, 1, 1, tzinfo=UTC), 1)
NAMES = Names("steelyard", "s3://bucket/platform")


@pytest.fixture(scope="module")
def received() -> Iterator[Receiver]:
    with receiver() as kept:
        yield kept


async def _nobody(id: str) -> None:
    return None


async def test_the_client_sends_what_the_schema_asks_for(received: Receiver) -> None:
    event = await make_event(make_evaluation("e1"), OCCURRENCE, NAMES, _nobody)
    await HttpReceiver(received.url, {"OPENLINEAGE_API_KEY": "key"}).emit(event)
    (sent,) = received.of(".e1")
    assert received.faults == []
    assert received.authorizations[-1] == "Bearer key"
    assert sent["run"]["facets"]["errorMessage"]["message"]


BROKEN = {
    "a run without an id": (("run", "runId"), None),
    "no time": (("eventTime",), None),
    "no producer": (("producer",), None),
    "a job without a namespace": (("job", "namespace"), None),
    "an id that is no UUID": (("run", "runId"), "e1"),
    "a type that there is not": (("eventType",), "ENDED"),
    "a field that there is not": (("extra",), "x"),
}


@pytest.mark.parametrize(("path", "value"), BROKEN.values(), ids=BROKEN)
async def test_the_check_is_one_that_can_fail(path: tuple[str, ...], value: str | None) -> None:
    event = await make_event(make_evaluation("e4"), OCCURRENCE, NAMES, _nobody)
    content = orjson.loads(Serde.to_json(event))
    check(content)
    holder = content
    for name in path[:-1]:
        holder = holder[name]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    with pytest.raises(jsonschema_rs.ValidationError):
        check(content)


@pytest.mark.parametrize(
    ("status", "error"),
    [(503, Unavailable), (401, Unavailable), (404, Unavailable), (422, NotTaken), (400, NotTaken)],
)
async def test_an_answer_says_whether_to_try_again(
    received: Receiver, status: int, error: type[Exception]
) -> None:
    event = await make_event(make_evaluation("e2"), OCCURRENCE, NAMES, _nobody)
    received.answers = [status]
    with pytest.raises(error):
        await HttpReceiver(received.url, {}).emit(event)
    assert received.answers == []  # once: the repeats are the service's


async def test_a_receiver_that_is_away_is_tried_again() -> None:
    event = await make_event(make_evaluation("e3"), OCCURRENCE, NAMES, _nobody)
    with pytest.raises(Unavailable):
        await HttpReceiver("http://127.0.0.1:9", {}).emit(event)


def test_an_address_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="openlineage_url"):
        HttpReceiver("nowhere", {})


def test_the_standard_variables_come_first() -> None:
    assert receiver_url("http://a", {}) == "http://a"
    assert receiver_url("http://a", {"OPENLINEAGE_URL": "http://b"}) == "http://b"
    assert receiver_url("http://a", {"OPENLINEAGE_DISABLED": "true"}) == ""


@pytest.fixture(scope="module")
def running(received: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine that reports its runs to the receiver, which is out of order at first."""
    with (
        machine_at(tmp_path_factory.mktemp("lineage") / "state") as machine,
        pytest.MonkeyPatch.context() as environment,
    ):
        environment.setenv("OPENLINEAGE_URL", received.url)
        received.answers = [503, 503]
        machine.up()
        yield machine


@pytest.mark.e2e
def test_each_run_is_reported_with_what_it_reads_and_writes(
    running: Machine, received: Receiver, tmp_path: Path
) -> None:
    with running.client() as client:
        small = make(client, tmp_path / "rows", rows=5)
        client.reports.wait(small.report, timeout=120)
    start, complete = received.until(f"report.{small.report}", ["START", "COMPLETE"])
    assert start["run"] == complete["run"]
    assert start["run"]["runId"] == run_id(small.report, 1)
    storage = f"{running.state.storage.resolve()}"
    names = {files["name"]: files for files in complete["inputs"]}
    assert set(names) == {f"{storage}/datasets/{small.dataset}", f"{storage}/evaluations/{small.evaluation}"}
    rows = names[f"{storage}/datasets/{small.dataset}"]
    assert [field["name"] for field in rows["facets"]["schema"]["fields"]] == ["_index_", "label"]
    assert rows["facets"]["version"]["datasetVersion"].startswith("sha256:")
    (output,) = received.until(f"evaluation.{small.evaluation}", ["START", "COMPLETE"])[1]["outputs"]
    # What one run writes and another one reads has one name: that is what makes it lineage.
    assert output["name"] in names
    assert output["facets"] == names[output["name"]]["facets"]
    assert {event["eventType"] for event in received.of(f"inferenceservice.{small.service}")} == {
        "START",
        "COMPLETE",
    }
    assert received.faults == []


@pytest.mark.e2e
@pytest.mark.timeout(1200)
def test_a_receiver_that_is_away_disturbs_nothing(machine: Machine, tmp_path: Path) -> None:
    settings = tmp_path / "steelyard.toml"
    settings.write_text('[telemetry]\nopenlineage_url = "http://127.0.0.1:9"\n')
    start_detached(machine.state.path, UpOptions(settings=settings))
    with machine.client() as client:
        small = make(client, tmp_path / "rows", rows=5)
        client.reports.wait(small.report, timeout=120)
    machine.down()
    assert not machine.state.ready.exists()
