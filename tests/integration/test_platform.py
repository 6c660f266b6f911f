"""The platform on one machine, as its users meet it: the demo, the published client, and services that are stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard.client import Client, WaitTimeout, presets
from steelyard.client.errors import Invalid, NotFound, Unavailable
from steelyard.local.state import StateDir, read_ready
from tests.integration.conftest import Machine, machine_at
from tests.integration.small import ACCOUNT, Small, make

pytestmark = pytest.mark.e2e


def steelyard(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "steelyard.cli.main", *arguments, "--state-dir", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)


@pytest.mark.timeout(1200)
def test_the_demo_ends_in_two_audits_that_are_compared(machine: Machine) -> None:
    done = steelyard("demo", "--display", "plain", folder=machine.state.path)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = machine.state.path / "audits"
    numbers = json.loads((folder / "digits-all" / "audit.json").read_text())
    page = (folder / "digits-all" / "index.html").read_text()
    assert str(folder / "digits-all" / "index.html") in done.stdout
    assert "steelyard up" in done.stdout
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert all(name in page for name in ("digits-few", "handwritten digits"))  # names, where there are any
    assert json.dumps(numbers).count("sha256") > 0


@pytest.mark.soak
def test_the_demo_can_be_run_again(machine: Machine) -> None:
    for _ in range(2):
        done = steelyard("demo", "--display", "none", folder=machine.state.path)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Machine, Small]]:
    """A machine that is up, with a small evaluation and its report, for tests that add to it."""
    with machine_at(tmp_path_factory.mktemp("evaluated") / "state") as machine:
        machine.up()
        with machine.client() as client:
            small = make(client, tmp_path_factory.mktemp("rows"), rows=10)
            client.reports.wait(small.report, timeout=120)
        yield machine, small


def test_the_demo_runs_on_a_platform_that_is_installed_elsewhere(
    evaluated: tuple[Machine, Small], tmp_path: Path
) -> None:
    ready = read_ready(evaluated[0].state)
    assert ready
    assert ready.api
    assert ready.token
    there = ("--endpoint", ready.api, "--token", ready.token)
    done = steelyard(
        "demo", "--display", "plain", "--output", str(tmp_path / "pages"), *there, folder=tmp_path / "no"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "pages" / "digits-all" / "index.html").exists()
    assert not (tmp_path / "no").exists()
    assert "get audits --endpoint" in done.stdout
    refused = steelyard("demo", "--token", ready.token, folder=tmp_path / "no")
    assert (refused.returncode, "--endpoint" in refused.stderr) == (2, True), refused.stderr


def test_commands_show_and_change_what_there_is(evaluated: tuple[Machine, Small], tmp_path: Path) -> None:
    machine, small = evaluated
    folder = machine.state.path
    table = steelyard("get", "evaluations", folder=folder).stdout
    assert small.evaluation in table
    assert "Complete" in table
    assert steelyard("label", "eval", small.evaluation[:8], "team=red", folder=folder).returncode == 0
    name = steelyard("get", "eval", "-l", "team=red", "-o", "name", folder=folder).stdout.strip()
    assert name == f"evaluations/{small.evaluation}"
    last = steelyard("get", "datasets", "--descending", "-o", "name", folder=folder).stdout.split()
    assert last == steelyard("get", "datasets", "-o", "name", folder=folder).stdout.split()[::-1]
    token = steelyard("token", "administrator", "--accounts", ACCOUNT, folder=folder).stdout.strip()
    shown = steelyard("get", "eval", "-o", "name", "--token", token, folder=folder)
    assert f"evaluations/{small.evaluation}" in shown.stdout.split(), shown.stderr
    assert "evaluation_client" in steelyard("logs", "eval", small.evaluation, folder=folder).stdout
    page = tmp_path / "saved"
    assert steelyard("report", "save", small.report, str(page), folder=folder).returncode == 0
    assert (page / "report.html").exists()
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("apiVersion: dyff.io/v1alpha1\nkind: Evaluation\nspec: {}\n")
    refused = steelyard("create", "-f", str(wrong), folder=folder)
    assert (refused.returncode, "kubectl apply" in refused.stderr) == (2, True)
    wrong.write_text(f"kind: Report\naccount: {ACCOUNT}\nrubric: x\nevaluation: {'0' * 32}\n")
    refused = steelyard("create", "-f", str(wrong), folder=folder)
    assert (refused.returncode, "evaluation" in refused.stderr) == (1, True)
    wrong.write_text(f"kind: Dataset\naccount: {ACCOUNT}\nname: x\ncolour: red\n")
    refused = steelyard("create", "-f", str(wrong), folder=folder)
    assert (refused.returncode, "colour" in refused.stderr) == (1, True)
    procedure = tmp_path / "procedure.yaml"
    procedure.write_text(
        f"kind: AuditProcedure\naccount: {ACCOUNT}\nname: twice\n"
        f"requirements: [{{dataset: {small.dataset}, rubric: classification.Classification}}]\n"
    )
    first = steelyard("apply", "-f", str(procedure), folder=folder)
    assert first.returncode == 0, first.stderr
    assert steelyard("apply", "-f", str(procedure), folder=folder).stdout == first.stdout


def test_what_is_downloaded_is_verified_and_signed(evaluated: tuple[Machine, Small], tmp_path: Path) -> None:
    machine, small = evaluated
    state = machine.state.path
    with machine.client() as client:
        requirements = [{"dataset": small.dataset, "rubric": "classification.Classification"}]
        procedure = client.auditprocedures.create(account=ACCOUNT, name="small", requirements=requirements)
        audit = client.audits.create(
            account=ACCOUNT,
            auditProcedure=procedure.id,
            inferenceService=small.service,
            useCase="sorting letters",
            author="the postmaster",
        )
        client.audits.wait(audit.id, timeout=120)
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    key = Ed25519PrivateKey.generate()
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    for kind, id in (("report", small.report), ("audit", audit.id)):
        folder = tmp_path / kind
        done = steelyard(kind, "download", id, "--evidence", str(folder), folder=state)
        assert done.returncode == 0, done.stderr
        unsigned = CliRunner().invoke(app, [kind, "verify", str(folder)])
        assert unsigned.exit_code == 0, unsigned.output
        assert unsigned.output.startswith("left out  there is no signature")
        assert "rows counted again: 10 rows of the dataset" in unsigned.output
        assert CliRunner().invoke(app, [kind, "sign", str(folder), "--sign-key", str(private)]).exit_code == 0
        signed = CliRunner().invoke(app, [kind, "verify", str(folder), "--key", str(public)])
        assert signed.exit_code == 0, signed.output
        assert "is signed by the key" in signed.output
    page = (tmp_path / "audit/index.html").read_text()
    assert all(said in page for said in ("sorting letters", "the postmaster", f"reports/{small.report}/"))


@contextmanager
def service(state: StateDir, name: str) -> Iterator[None]:
    """One part alone, along with the `up` that leaves it out."""
    command = [sys.executable, "-m", "steelyard.cli.service", name, "--state-dir", str(state.path)]
    with (state.path / "logs" / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


STOPPED = {
    "aggregator": "",
    "view-sink": "",
    "orchestrator": "",
    "informer": "Admitted",
    "operator": "Admitted",
}
"""Status of the first entity that waits without the service."""
BESIDE = {"informer": ("backup-sink", "reaper")}
"""Services left out beside one, which stay out: nothing waits for them."""


@pytest.mark.parametrize("name", STOPPED)
def test_what_waits_for_a_service_goes_on_when_it_is_there_again(
    machine: Machine, tmp_path: Path, name: str
) -> None:
    machine.up(name, *BESIDE.get(name, ()))
    with machine.client() as client:
        if name in ("aggregator", "view-sink"):
            _made_while_nothing_is_judged(machine, client, tmp_path, name)
            return
        small = make(client, tmp_path / "rows", rows=10)
        with pytest.raises(WaitTimeout):
            client.reports.wait(small.report, timeout=4)
        said = client.inferenceservices.get(small.service)
        assert said.status in ("Created", "Admitted")
        with service(machine.state, name):
            client.reports.wait(small.report, timeout=300)


def _made_while_nothing_is_judged(machine: Machine, client: Client, tmp_path: Path, name: str) -> None:
    """Check that a created entity can be read, and that an edit is accepted but not confirmed."""
    schema = presets.classification().outputSchema
    artifacts = [{"kind": "parquet", "path": "part-0.parquet"}]
    early = client.datasets.create(account=ACCOUNT, name="early", artifacts=artifacts, schema=schema)
    assert client.datasets.get(early.id).name == "early"
    assert [dataset.id for dataset in client.datasets.query(name="early")] == [early.id]
    with machine.client(tries=1) as impatient, pytest.raises(Unavailable, match="accepted"):
        impatient.datasets.label(early.id, {"early": "yes"})
    with service(machine.state, name):
        until = time.monotonic() + 30
        while client.datasets.get(early.id).labels != {"early": "yes"}:
            assert time.monotonic() < until, "the accepted edit was lost"
            time.sleep(0.1)
        small = make(client, tmp_path / "rows", rows=10)
        client.reports.wait(small.report, timeout=300)


def test_what_is_refused_leaves_nothing_behind(machine: Machine) -> None:
    machine.up("operator")
    with machine.client(tries=1) as client:
        with pytest.raises(Invalid, match="evaluation"):
            client.reports.create(account=ACCOUNT, rubric="x", evaluation="0" * 32)
        with pytest.raises(Invalid, match="path"):
            client.datasets.create(
                account=ACCOUNT, name="x", artifacts=[{"path": "../x"}], schema={"arrowSchema": ""}
            )
        with pytest.raises(NotFound):
            client.reports.get("0" * 32)
        assert not [*client.reports.query(), *client.datasets.query()]
