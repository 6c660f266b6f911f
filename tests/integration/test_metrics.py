"""`/metrics` of every process: read as Prometheus reads it, named as it asks, and described in docs/monitoring.md."""

import json
import re
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from steelyard.local.process import PARTS, SERVICES
from tests.integration.conftest import Machine, machine_at

pytestmark = pytest.mark.e2e

ALONE = tuple(name for name in SERVICES if name != "api")
VARIABLES = {
    "OPENLINEAGE_URL": "http://127.0.0.1:9",
    "STEELYARD_STORAGE_SERVER__LISTEN": "127.0.0.1:0",
    "STEELYARD_STORAGE_SERVER__ACCESS_KEY": "steps",
    "STEELYARD_STORAGE_SERVER__SECRET_KEY": "0123456789abcdef",
}
"""The environment in which none of them lacks what it needs to start."""
PAGE = Path(__file__).parents[2] / "docs" / "monitoring.md"
V1 = re.compile(r"created_pods|deleted_pods|failed_pods|training_operator_jobs_\w+")
"""Names of version 1's training operator, kept for its dashboards; docs/training/operator.md lists them."""
ID = re.compile(r"[0-9a-f]{12}")
EXPECTED = {
    "kubernetes": {
        "apiserver_request",
        "apiserver_request_duration_seconds",
        "apiserver_storage_objects",
        "kubelet_running_pods",
        "workqueue_depth",
        "workqueue_queue_duration_seconds",
        "controller_runtime_reconcile_errors",
        "steelyard_kubernetes_faults",
    },
    "operator": {
        "leader_election_master_status",
        "workqueue_depth",
        "workqueue_work_duration_seconds",
        "controller_runtime_reconcile_errors",
        "controller_runtime_reconcile_time_seconds",
        "steelyard_operator_syncs",
    },
    "api": {
        "steelyard_api_requests",
        "steelyard_api_request_seconds",
        "steelyard_outbox_unsent_commands",
        "steelyard_outbox_oldest_unsent_age_seconds",
        "steelyard_quarantined_entities",
    },
    "aggregator": {"steelyard_consumer_lag_records"},
    "view-sink": {"steelyard_consumer_lag_records"},
    "backup-sink": {"steelyard_consumer_lag_records"},
    "orchestrator": {
        "steelyard_consumer_lag_records",
        "steelyard_orchestrator_held",
        "leader_election_master_status",
        "workqueue_depth",
    },
    "informer": {"leader_election_master_status"},
    "lineage": {"steelyard_consumer_lag_records", "steelyard_lineage_events", "steelyard_lineage_retries"},
    "webhooks": {"steelyard_consumer_lag_records", "steelyard_webhook_attempts"},
    "reaper": {"process_resident_memory_bytes"},
    "storage": {"steelyard_storage_requests"},
}


@contextmanager
def service(machine: Machine, name: str) -> Iterator[None]:
    command = [sys.executable, "-m", "steelyard.cli.main", "service", name]
    process = subprocess.Popen([*command, "--state-dir", str(machine.state.path)])
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine whose services each run in a process of their own, which has answered some requests."""
    with (
        machine_at(tmp_path_factory.mktemp("metrics") / "state") as machine,
        pytest.MonkeyPatch.context() as environment,
        ExitStack() as services,
    ):
        for name, value in VARIABLES.items():
            environment.setenv(name, value)
        machine.up(*ALONE)
        for name in ALONE:
            services.enter_context(service(machine, name))
        client = machine.client()
        assert not list(client.datasets.query())
        client.close()
        yield machine


def status(machine: Machine) -> Mapping[str, str]:
    """Addresses of all processes, as `steelyard status` shows them."""
    command = [sys.executable, "-m", "steelyard.cli.main", "status", "--output", "json"]
    end = time.monotonic() + 60
    while True:
        run = subprocess.run(
            [*command, "--state-dir", str(machine.state.path)], capture_output=True, text=True, check=True
        )
        metrics: dict[str, str] = json.loads(run.stdout)["metrics"]
        if set(EXPECTED) <= set(metrics):
            return metrics
        assert time.monotonic() < end, f"only {sorted(metrics)} serve metrics"


@pytest.fixture(scope="module")
def expositions(running: Machine) -> Mapping[str, list[Metric]]:
    return {name: scrape(running, url) for name, url in status(running).items()}


def scrape(machine: Machine, url: str) -> list[Metric]:
    """Read the figures as Prometheus does; Kubernetes' with its certificate authority and token."""
    request, context = urllib.request.Request(url), None
    if url.startswith("https:"):
        context = ssl.create_default_context(cafile=str(machine.state.pki / "ca.crt"))
        request.add_header("Authorization", f"Bearer {machine.state.token.read_text().strip()}")
    with urllib.request.urlopen(request, timeout=20, context=context) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        return list(text_string_to_metric_families(answer.read().decode()))


def test_every_part_has_its_figures(expositions: Mapping[str, list[Metric]]) -> None:
    assert set(expositions) == set(EXPECTED) == set(PARTS) - {"platform"}
    for name, expected in EXPECTED.items():
        missing = expected - {family.name for family in expositions[name]}
        assert not missing, f"{name} lacks {missing}"


def test_names_are_as_prometheus_asks(expositions: Mapping[str, list[Metric]]) -> None:
    faults = []
    for part, families in expositions.items():
        for family in families:
            if V1.fullmatch(family.name):
                continue
            if not re.fullmatch(r"[a-z][a-z0-9_]*", family.name) or not family.documentation:
                faults.append(f"{part}: {family.name}: a name or a help text is missing")
            if family.type == "histogram" and not family.name.endswith(("_seconds", "_bytes")):
                faults.append(f"{part}: {family.name}: a histogram has a base unit")
            if family.type in ("counter", "gauge") and re.search(
                r"_(ms|milliseconds|kb|count)$", family.name
            ):
                faults.append(f"{part}: {family.name}: no base unit")
            if family.type not in ("counter", "gauge", "histogram"):
                faults.append(f"{part}: {family.name}: is {family.type}")
    assert not faults


def test_no_label_holds_an_id(expositions: Mapping[str, list[Metric]]) -> None:
    faults = [
        f"{part}: {sample.name} {sample.labels}"
        for part, families in expositions.items()
        for family in families
        for sample in family.samples
        if any(ID.search(value) for value in sample.labels.values())
    ]
    assert not faults


def test_lags_are_reported_by_partition(expositions: Mapping[str, list[Metric]]) -> None:
    lags = {
        (sample.labels["consumer"], sample.labels["topic"]): sample.labels["partition"]
        for part in ("aggregator", "view-sink", "backup-sink", "orchestrator", "lineage", "webhooks")
        for family in expositions[part]
        if family.name == "steelyard_consumer_lag_records"
        for sample in family.samples
    }
    assert set(lags) == {
        ("workflows-aggregator", "workflows.events"),
        ("view-sink", "workflows.state"),
        ("backup-sink", "workflows.state"),
        ("orchestrator", "workflows.state"),
        ("lineage", "workflows.state"),
        ("webhooks", "workflows.state"),
    }
    assert set(lags.values()) == {"7"}


def test_one_of_each_leads(expositions: Mapping[str, list[Metric]]) -> None:
    leases = {
        sample.labels["name"]
        for families in expositions.values()
        for family in families
        if family.name == "leader_election_master_status"
        for sample in family.samples
    }
    assert leases == {"steelyard-operator", "steelyard-orchestrator", "steelyard-informer"}


def test_every_figure_is_on_the_page(expositions: Mapping[str, list[Metric]]) -> None:
    page = PAGE.read_text()
    names = {family.name for families in expositions.values() for family in families}
    missing = {name for name in names if f"`{name}" not in page and not name.startswith("process_")}
    assert {name for name in missing if not V1.fullmatch(name)} == set()


def test_the_pages_rules_use_figures_that_there_are(expositions: Mapping[str, list[Metric]]) -> None:
    """A rule whose metric is misspelt never fires."""
    samples = {
        sample.name for families in expositions.values() for family in families for sample in family.samples
    } | {"up"}
    samples |= {family.name for families in expositions.values() for family in families}
    blocks = [
        yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    ]
    rules = [rule for block in blocks for group in block.get("groups", ()) for rule in group["rules"]]
    assert len(rules) >= 5
    for rule in rules:
        used = set(
            re.findall(
                r"\b(?:steelyard|workqueue|leader|controller|apiserver|process)_\w+|\bup\b", rule["expr"]
            )
        )
        counters = {name.removesuffix("_total") for name in used if name.endswith("_total")}
        assert used, rule["alert"]
        assert {name for name in used if name.removesuffix("_total") not in counters} <= samples, rule[
            "alert"
        ]
        assert counters <= samples, rule["alert"]
    assert any("scrape_configs" in block for block in blocks)
