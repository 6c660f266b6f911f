"""Measurements and safety cases on one machine: a method of a module is run, killed around, and its scores are read."""

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.client import Client, WorkflowFailed, presets
from steelyard.local.state import read_record
from steelyard_schema.names import account_namespace
from tests.integration.conftest import Machine, machine_at
from tests.integration.http_server import QuietHandler, http_server
from tests.integration.small import ACCOUNT, write_rows
from tests.integration.test_platform_kills import jobs_of, strike

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

ROWS = 12
CODE = '''
import urllib.request

import pyarrow as pa

from steelyard_evaluation.analysis import AnalysisContext


def doubles(arguments, rows):
    """Twice the label of each row."""
    if "gate" in arguments:
        urllib.request.urlopen(arguments["gate"], timeout=600).read()
    print("doubling", flush=True)
    table = rows.to_table()
    double = [2 * label for label in table["label"].to_pylist()]
    return pa.table({"_index_": table["_index_"], "double": pa.array(double, pa.int64())})


def verdict(arguments, numbers):
    """A page, and the share of rows whose double is not zero."""
    context = AnalysisContext()
    doubles = numbers.to_table()["double"].to_pylist()
    share = sum(double > 0 for double in doubles) / len(doubles)
    context.score("share", share, f"{share:.0%} of the labels are not zero")
    (context.output / "index.html").write_text(f"<p>{share}</p>")


def wrong(arguments, rows):
    raise ValueError("these rows are not for me")
'''
DOUBLES = pa.schema([pa.field("_index_", pa.int64()), pa.field("double", pa.int64())])
SHARE = {"name": "share", "title": "Share", "summary": "Share of labels that are not zero.", "maximum": 1.0}
MEASUREMENT = {
    "name": "doubles",
    "level": "Instance",
    "schema": {"arrowSchema": base64.b64encode(DOUBLES.serialize().to_pybytes()).decode()},
}
OF_ROWS = [{"keyword": "rows", "kind": "Dataset"}]


@dataclass(frozen=True)
class AnalysisPlatform:
    """A machine, and what every test needs on it."""

    machine: Machine
    module: str
    dataset: str
    service: str

    @property
    def scope(self) -> dict[str, str]:
        return {"inferenceService": self.service}

    def method(self, client: Client, function: str, **fields: Any) -> str:
        """Create a method by a function of the module; without other fields, of a measurement of rows."""
        program = {
            "kind": "PythonFunction",
            "pythonFunction": {"fullyQualifiedName": f"numbers_of.{function}"},
        }
        content: dict[str, Any] = {
            "inputs": OF_ROWS,
            "output": {"kind": "Measurement", "measurement": MEASUREMENT},
            **fields,
        }
        made = client.methods.create(
            account=ACCOUNT,
            name=function,
            scope="InferenceService",
            implementation=program,
            modules=[self.module],
            **content,
        )
        return made.id

    def verdict(self, client: Client) -> str:
        """Create the method of a safety case of such a measurement."""
        inputs = [{"keyword": "numbers", "kind": "Measurement"}]
        output = {"kind": "SafetyCase", "safetyCase": {"name": "verdict"}}
        return self.method(client, "verdict", inputs=inputs, output=output, scores=[SHARE])


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnalysisPlatform]:
    folder = tmp_path_factory.mktemp("analyses")
    (folder / "module").mkdir()
    (folder / "module" / "numbers_of.py").write_text(CODE)
    with machine_at(folder / "state") as machine:
        machine.up()
        with machine.client() as client:
            module = client.modules.create_from_folder(folder / "module", account=ACCOUNT, name="numbers")
            dataset = client.datasets.create_from_folder(
                write_rows(folder / "rows", ROWS), account=ACCOUNT, name="rows"
            )
            service = client.inferenceservices.create(
                account=ACCOUNT,
                name="mock",
                runner=presets.mock(),
                interface=presets.classification("classify"),
            )
        yield AnalysisPlatform(machine, module.id, dataset.id, service.id)


def check_measurement(client: Client, id: str, folder: Path) -> None:
    """Check the rows that were published, and that the log has what the method printed."""
    (path,) = client.measurements.download(id, folder)
    rows = pq.read_table(path).to_pylist()
    assert rows == [{"_index_": number, "double": 2 * (number % 3)} for number in range(ROWS)]
    assert any("doubling" in entry.message for entry in client.measurements.logs(id).logs)


def test_a_run_of_a_pipeline_measures_and_judges(platform: AnalysisPlatform, tmp_path: Path) -> None:
    with platform.machine.client() as client:
        measure = {
            "kind": "PipelineMeasurementRequest",
            "method": platform.method(client, "doubles"),
            "scope": {"inferenceService": "$(service)"},
            "inputs": [{"keyword": "rows", "entity": platform.dataset}],
        }
        judge = {
            "kind": "PipelineSafetyCaseRequest",
            "method": platform.verdict(client),
            "scope": {"inferenceService": "$(service)"},
            "inputs": [{"keyword": "numbers", "entity": "$(measure)"}],
        }
        pipeline = client.pipelines.create(
            account=ACCOUNT,
            name="measure and judge",
            nodes={
                "measure": {"name": "measure", "request": measure},
                "judge": {"name": "judge", "request": judge},
            },
            parameters={"service": {"keyword": "service"}},
        )
        run = client.pipelineruns.create(
            pipeline=pipeline.id, account=ACCOUNT, arguments={"service": platform.service}
        )
        assert client.pipelineruns.wait(run.id, timeout=600).status == "Complete"
        check_measurement(client, run.workflows["measure"].id, tmp_path / "measurement")
        case = run.workflows["judge"].id
        (score,) = client.safetycases.scores(case)
        assert (score.name, score.analysis) == ("share", case)
        assert score.quantity == pytest.approx(2 / 3)
        (page,) = client.safetycases.download(case, tmp_path / "case")
        assert page.read_text().startswith("<p>0.66")


def test_a_method_that_fails_is_tried_twice_and_says_with_what(platform: AnalysisPlatform) -> None:
    with platform.machine.client() as client:
        made = client.measurements.create(
            account=ACCOUNT,
            method=platform.method(client, "wrong"),
            scope=platform.scope,
            inputs=[{"keyword": "rows", "entity": platform.dataset}],
        )
        with pytest.raises(WorkflowFailed):
            client.measurements.wait(made.id, timeout=600)
        failed = client.measurements.get(made.id)
        assert (failed.status, failed.reason) == ("Failed", "MethodFailed")
        assert (failed.message or "").startswith(
            "ValueError: these rows are not for me (numbers_of.py, line "
        )
        assert any("numbers_of.py" in entry.message for entry in client.measurements.logs(made.id).logs)


@dataclass
class Gate:
    """A place at which methods wait until it is opened; it counts those that came."""

    opened: threading.Event = field(default_factory=threading.Event)
    came: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    count: int = 0


@contextmanager
def gate_server(gate: Gate) -> Iterator[str]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            gate.count += 1
            gate.came.release()
            gate.opened.wait()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    handler: type[BaseHTTPRequestHandler] = Handler
    with http_server(handler) as url:
        try:
            yield url
        finally:
            gate.opened.set()


def until(holds: Callable[[], bool], what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.1)


def test_whatever_is_killed_while_a_method_runs_it_runs_once(
    platform: AnalysisPlatform, tmp_path: Path
) -> None:
    gate, machine = Gate(), platform.machine
    with gate_server(gate) as url, machine.client(tries=30) as client:
        made = client.measurements.create(
            account=ACCOUNT,
            method=platform.method(client, "doubles", parameters=[{"keyword": "gate"}]),
            scope=platform.scope,
            arguments=[{"keyword": "gate", "value": url}],
            inputs=[{"keyword": "rows", "entity": platform.dataset}],
        )
        assert gate.came.acquire(timeout=600), "the method has not begun"
        for victim in ("operator", "platform", "kubernetes"):
            pid, _ = read_record(machine.state).children[victim]
            strike(machine, victim)
            until(
                lambda victim=victim, pid=pid: (  # type: ignore[misc]
                    read_record(machine.state).children.get(victim, (pid,))[0] != pid
                ),
                f"{victim} is started again",
            )
        assert client.measurements.get(made.id).status == "Admitted"
        gate.opened.set()
        client.measurements.wait(made.id, timeout=600)
        check_measurement(client, made.id, tmp_path / "measurement")
    assert gate.count == 1
    name = f"measurement-{made.id}-run"
    jobs = [
        job
        for job in asyncio.run(jobs_of(machine, account_namespace(ACCOUNT)))
        if job["metadata"]["name"].startswith(name)
    ]
    assert [(job["metadata"]["name"], job["status"]["succeeded"]) for job in jobs] == [(f"{name}-a1", 1)]
