"""One trace from a request to the step that it leads to, as a receiver of OTLP gets it; and none in the way of work."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from steelyard.local.detached import UpOptions
from steelyard.local.state import read_ready
from steelyard.local.supervisor import start_detached
from steelyard_kube.resource import JOBS, PODS
from tests.integration.conftest import Machine, machine_at
from tests.integration.otlp import Receiver, receiver
from tests.integration.small import ACCOUNT, RUBRIC, Small, make

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def received() -> Iterator[Receiver]:
    with receiver() as kept:
        yield kept


@pytest.fixture(scope="module")
def running(received: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine whose processes send their spans to the receiver."""
    with (
        machine_at(tmp_path_factory.mktemp("traces") / "state") as machine,
        pytest.MonkeyPatch.context() as environment,
    ):
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        machine.up()
        yield machine


@pytest.fixture(scope="module")
def evaluated(running: Machine, tmp_path_factory: pytest.TempPathFactory) -> Small:
    with running.client() as client:
        small = make(client, tmp_path_factory.mktemp("rows"), rows=5)
        client.reports.wait(small.report, timeout=120)
    return small


def post_report(machine: Machine, evaluation: str, headers: dict[str, str]) -> str:
    """Create a report with headers of one's own; its id."""
    ready = read_ready(machine.state)
    assert ready is not None
    body = {"account": ACCOUNT, "rubric": RUBRIC, "evaluation": evaluation}
    headers = {"Authorization": f"Bearer {ready.token}", **headers}
    answer = httpx.post(f"{ready.api}/reports", json=body, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    id: str = answer.json()["id"]
    with machine.client() as client:
        client.reports.wait(id, timeout=120)
    return id


def test_one_trace_leads_from_the_request_to_the_reports_step(
    running: Machine, evaluated: Small, received: Receiver
) -> None:
    trace, caller = secrets.token_hex(16), secrets.token_hex(8)
    id = post_report(running, evaluated.evaluation, {"traceparent": f"00-{trace}-{caller}-01"})
    chain = ["POST /v0/reports", "process workflows.events", "create Report", "create Job", "run_report"]
    spans = [received.named(trace, name) for name in chain]
    assert [span.parent for span in spans] == [caller, *(span.id for span in spans[:-1])]
    assert [span.service for span in spans] == [
        "steelyard-platform",
        "steelyard-platform",
        "steelyard-platform",
        "steelyard-operator",
        "steelyard-step",
    ]
    assert spans[0].attributes["http.response.status_code"] == "200"
    assert spans[2].attributes["steelyard.entity.id"] == id
    assert spans[4].attributes["process.exit.code"] == "0"
    # The end of the workflow belongs to the same trace: the informer's command carries the resource's annotation.
    later = [span for span in received.of(trace) if span.name == "process workflows.events"][1:]
    assert later
    assert {span.parent for span in later} <= {span.id for span in spans} | {caller}


async def test_the_trace_is_on_the_resources_and_in_the_steps_environment(
    running: Machine, evaluated: Small, received: Receiver
) -> None:
    trace = secrets.token_hex(16)
    id = post_report(running, evaluated.evaluation, {"traceparent": f"00-{trace}-{'1' * 16}-01"})
    step = received.named(trace, "run_report")
    async with running.cluster() as cluster:
        jobs = [job for job in (await cluster.list(JOBS)).items if f"report-{id}" in job["metadata"]["name"]]
        pods = [pod for pod in (await cluster.list(PODS)).items if f"report-{id}" in pod["metadata"]["name"]]
    (job,) = jobs
    (container,) = pods[0]["spec"]["containers"]
    env = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert env["TRACEPARENT"] == job["metadata"]["annotations"]["steelyard/traceparent"]
    assert env["TRACEPARENT"] == f"00-{trace}-{step.parent}-01"


def test_who_does_not_want_to_be_traced_is_not(
    running: Machine, evaluated: Small, received: Receiver
) -> None:
    trace = secrets.token_hex(16)
    post_report(running, evaluated.evaluation, {"traceparent": f"00-{trace}-{'1' * 16}-00"})
    marker = secrets.token_hex(16)
    post_report(running, evaluated.evaluation, {"traceparent": f"00-{marker}-{'1' * 16}-01"})
    received.named(marker, "run_report")  # by then the other one's spans would have come
    assert received.of(trace) == []


@pytest.mark.timeout(1200)
def test_a_receiver_that_is_away_disturbs_nothing(machine: Machine, tmp_path: Path) -> None:
    settings = tmp_path / "steelyard.toml"
    settings.write_text('[telemetry]\notlp_endpoint = "http://127.0.0.1:9"\n')
    start_detached(machine.state.path, UpOptions(settings=settings))
    with machine.client() as client:
        small = make(client, tmp_path / "rows", rows=5)
        client.reports.wait(small.report, timeout=120)
    machine.down()
    assert json.loads(machine.state.record.read_text())["pid"] == 0
