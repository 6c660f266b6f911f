"""Data sources on one machine: fetched by a Pod from servers that answer like the hub and like Zenodo."""

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from steelyard.cli.test_bounded_tables import BOMBS
from steelyard.client import Client
from steelyard.client.errors import Invalid, WorkflowFailed
from steelyard.local.state import read_ready, read_record
from steelyard.steps.example import make_config
from steelyard.steps.source_servers import COMMIT, RECORD, TOKEN, ServedSource, hub_server, zenodo_server
from steelyard_common.processes import resident
from steelyard_evaluation.storage.store import Store, open_store
from steelyard_schema.egress import EgressPolicy
from steelyard_schema.names import MANIFEST
from tests.integration.conftest import Machine, machine_at
from tests.integration.contents import contents
from tests.integration.small import ACCOUNT
from tests.platform_api.test_attack_requests import MANIFESTS

pytestmark = pytest.mark.e2e

ROWS = b"".join(b'{"question": "%d?", "label": %d}\n' % (number, number % 3) for number in range(500))
FILES = {"README.md": b"# rows", "data/train.jsonl": ROWS, "data/test.csv": b"question,label\nhow?,1\n"}


@pytest.fixture(scope="module")
def mirror() -> Iterator[ServedSource]:
    """A mirror of the hub that answers no request without a token."""
    with hub_server(FILES) as place:
        place.token = TOKEN
        yield place


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, mirror: ServedSource) -> Iterator[Machine]:
    with machine_at(tmp_path_factory.mktemp("sources") / "state") as machine:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("STEELYARD_EGRESS__SOURCES", '["http://127.0.0.1"]')
            environment.setenv("STEELYARD_EGRESS__NETWORKS", '["127.0.0.0/8"]')
            environment.setenv("STEELYARD_OPERATOR__HUB", mirror.origin)
            machine.up()
        yield machine


@pytest.fixture
def hub() -> Iterator[ServedSource]:
    with hub_server(FILES) as place:
        yield place


def _source(client: Client, place: ServedSource, **fields: Any) -> str:
    source = f"{place.origin}/datasets/org/rows@main"
    made = client.datasources.create(
        account=ACCOUNT, name="rows", sourceKind="huggingface", source=source, **fields
    )
    return made.id


@pytest.mark.timeout(1200)
def test_a_dataset_is_made_of_what_the_hub_has(machine: Machine, hub: ServedSource, tmp_path: Path) -> None:
    hub.croissant = {
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": "rows",
        "license": "https://choosealicense.com/licenses/mit/",
    }
    with machine.client() as client:
        source = _source(client, hub, files=["data/"])
        dataset = client.datasets.create(
            account=ACCOUNT, name="train", dataSource=source, files=["data/train.jsonl"]
        )
        client.datasets.wait(dataset.id, timeout=600)
        assert client.datasources.get(source).status == "Ready"
        client.datasources.download(source, tmp_path / "source")
        assert (tmp_path / "source/data/train.jsonl").read_bytes() == ROWS
        assert not (tmp_path / "source/README.md").exists()
        client.datasets.download(dataset.id, tmp_path / "dataset")
        assert client.datasets.take_croissant(dataset.id).taken == ["name", "license"]
        described = client.datasets.croissant(dataset.id)
        assert described["license"] == ["https://choosealicense.com/licenses/mit/"]
        columns = [field["name"] for field in described["recordSet"][0]["field"]]
        assert columns == ["_index_", "question", "label"]
    rows = pq.read_table(tmp_path / "dataset/data.parquet").to_pylist()
    assert rows[499] == {"_index_": 499, "question": "499?", "label": 1}
    assert any(path.endswith(f"resolve/{COMMIT}/data/train.jsonl") for path in hub.paths())


@pytest.mark.timeout(1200)
def test_a_record_of_zenodo_is_fetched(machine: Machine, tmp_path: Path) -> None:
    with zenodo_server({"test.csv": FILES["data/test.csv"]}) as zenodo, machine.client() as client:
        source = client.datasources.create(
            account=ACCOUNT, name="rows", sourceKind="zenodo", source=f"{zenodo.origin}/records/{RECORD}"
        )
        dataset = client.datasets.create(account=ACCOUNT, name="test", dataSource=source.id)
        client.datasets.wait(dataset.id, timeout=600)
        (path,) = client.datasets.download(dataset.id, tmp_path / "dataset")
    assert pq.read_table(path).to_pylist() == [{"_index_": 0, "question": "how?", "label": 1}]


@pytest.mark.timeout(1200)
def test_a_dataset_is_made_of_uploaded_files(machine: Machine, tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_bytes(content)
    with machine.client() as client:
        source = client.datasources.create_from_folder(tmp_path / "folder", account=ACCOUNT, name="mine")
        assert source.status == "Ready"
        dataset = client.datasets.create(account=ACCOUNT, name="test", dataSource=source.id, files=["*.csv"])
        client.datasets.wait(dataset.id, timeout=600)
        (path,) = client.datasets.download(dataset.id, tmp_path / "dataset")
        client.datasources.download(source.id, tmp_path / "again")
    assert pq.read_table(path).to_pylist() == [{"_index_": 0, "question": "how?", "label": 1}]
    assert {file: (tmp_path / "again" / file).read_bytes() for file in FILES} == FILES


@pytest.mark.timeout(1200)
def test_files_that_stand_for_more_than_they_weigh_are_refused(machine: Machine, tmp_path: Path) -> None:
    name, make, said = BOMBS["packed texts of Arrow"]
    (tmp_path / name).write_bytes(make())
    ready = read_ready(machine.state)
    assert ready is not None
    process = read_record(machine.state).children["platform"][0]
    before = resident([process])
    with machine.client() as client:
        source = client.datasources.create_from_folder(tmp_path, account=ACCOUNT, name="packed")
        dataset = client.datasets.create(account=ACCOUNT, name="packed", dataSource=source.id)
        layers, fault = MANIFESTS["lists"]
        manifest = f"/v2/artifacts/{client.artifacts.create(account=ACCOUNT).id}/manifests/latest"
        answer = httpx.put(
            f"{(ready.api or '').removesuffix('/v0')}{manifest}",
            content=b'{"schemaVersion":2,"layers":[' + layers + b"{}]}",
            headers={"Content-Type": "a/b", "Authorization": f"Bearer {ready.token}"},
            timeout=60,
        )
        assert (answer.status_code, fault in answer.text) == (400, True)
        with pytest.raises(WorkflowFailed):
            client.datasets.wait(dataset.id, timeout=600)
        failed = client.datasets.get(dataset.id)
    assert failed.reason == "IngestFailed"
    assert re.match(f"{name}: {said}", failed.message or "")
    assert resident([process]) - before < 64 << 20


@pytest.mark.timeout(1200)
def test_what_cannot_be_fetched_is_reported_and_fails_what_waits_for_it(
    machine: Machine, hub: ServedSource
) -> None:
    hub.branches = {"main": "e" * 40}
    hub.files = {}
    with machine.client() as client:
        source = _source(client, hub)
        dataset = client.datasets.create(account=ACCOUNT, name="none", dataSource=source)
        with pytest.raises(WorkflowFailed):
            client.datasets.wait(dataset.id, timeout=600)
        failed = client.datasources.get(source)
        assert (failed.status, failed.reason) == ("Error", "FetchFailed")
        assert "no file" in (failed.message or "")
        waiting = client.datasets.get(dataset.id)
        assert (waiting.status, waiting.reason) == ("Error", "FailedDependency")


@pytest.mark.timeout(1200)
def test_an_address_that_the_settings_do_not_allow_is_not_called(machine: Machine) -> None:
    with machine.client() as client:
        with pytest.raises(Invalid, match=r"egress\.sources"):
            client.datasources.create(
                account=ACCOUNT, name="rows", sourceKind="zenodo", source="https://example.org/records/7"
            )
        # Zenodo itself is taken, as is the hub, for which a mirror may stand; the step calls only what is allowed.
        made = client.datasources.create(account=ACCOUNT, name="rows", sourceKind="zenodo", source="7002")
        with pytest.raises(WorkflowFailed, match=r"egress\.sources"):
            client.datasources.wait(made.id, timeout=600)


@pytest.mark.timeout(1200)
def test_a_gated_dataset_is_fetched_by_a_token_that_nothing_keeps(
    machine: Machine, mirror: ServedSource, tmp_path: Path
) -> None:
    request = {"account": ACCOUNT, "name": "gated", "sourceKind": "huggingface", "source": "org/rows"}
    with machine.client() as client:
        refused = client.datasources.create(request)
        with pytest.raises(WorkflowFailed, match=r"needs a token, which secrets\.source names"):
            client.datasources.wait(refused.id, timeout=600)
        client.secrets.set(ACCOUNT, "hub-token", TOKEN)
        made = client.datasources.create(request, secrets={"source": "hub-token"})
        ready = client.datasources.wait(made.id, timeout=600)
        client.datasources.download(made.id, tmp_path / "source")
        assert TOKEN not in ready.dump_json()
        assert TOKEN not in str(client.datasources.logs(made.id))
    assert (tmp_path / "source/data/train.jsonl").read_bytes() == ROWS
    kept = dict(contents(machine.state.storage))
    assert kept
    assert not [path for path, content in kept.items() if TOKEN.encode() in content]


@pytest.mark.timeout(1200)
def test_a_source_that_is_deleted_while_it_is_fetched_is_stopped_and_fails_what_waits_for_it(
    machine: Machine, hub: ServedSource
) -> None:
    assert hub.store is not None
    hub.store.hold = threading.Event()
    try:
        with machine.client() as client:
            source = _source(client, hub)
            dataset = client.datasets.create(account=ACCOUNT, name="late", dataSource=source)
            assert hub.store.halfway.wait(600), "the large file was never asked for"
            assert client.datasets.get(dataset.id).status == "Created"
            message = client.datasources.delete(source).message or ""
            assert "is being stopped" in message
            assert dataset.id in message
            with pytest.raises(WorkflowFailed):
                client.datasets.wait(dataset.id, timeout=600)
            failed = client.datasets.get(dataset.id)
            assert (failed.status, failed.reason) == ("Error", "DataSourceMissing")
    finally:
        hub.store.hold.set()


@pytest.mark.timeout(1200)
def test_a_step_that_is_killed_begins_again_where_it_was_and_nothing_half_done_is_sealed(
    tmp_path: Path,
) -> None:
    check_killed_step(tmp_path, f"file://{tmp_path}/out")


def check_killed_step(folder: Path, output: str) -> None:
    """Kill the step in the middle of a file; in any storage, the next attempt fetches the rest, and seals it."""
    kept = open_store(output)
    with hub_server({"a.csv": b"x\n1\n", "z.jsonl": ROWS}) as hub:
        assert hub.store is not None
        hub.store.hold = threading.Event()
        first = _step(folder, hub, output)
        assert hub.store.halfway.wait(600), "the large file was never asked for"
        first.kill()
        first.wait()
        names = asyncio.run(_names(kept))
        assert "a.csv" in names
        assert not names & {"z.jsonl", MANIFEST}
        hub.store.hold.set()
        assert _step(folder, hub, output).wait(600) == 0
        asked = [path for path in hub.paths() if path.endswith("a.csv")]
    assert asyncio.run(kept.get("z.jsonl")) == ROWS
    manifest = json.loads(asyncio.run(kept.get(MANIFEST)))
    assert {file["path"]: file["sha256"] for file in manifest["files"]} == {
        "a.csv": hashlib.sha256(b"x\n1\n").hexdigest(),
        "z.jsonl": hashlib.sha256(ROWS).hexdigest(),
    }
    assert len(asked) == 1, "what the first attempt has kept was fetched again"


async def _names(store: Store) -> set[str]:
    return {info.key async for info in store.list()}


def _step(folder: Path, hub: ServedSource, output: str) -> subprocess.Popen[bytes]:
    """Start the step as the operator's Job does."""
    spec = {
        "name": "rows",
        "sourceKind": "huggingface",
        "source": f"{hub.origin}/datasets/org/rows",
        "storage": {"output": output},
    }
    policy = EgressPolicy(hosts=("http://127.0.0.1",), networks=("127.0.0.0/8",))
    config = make_config("fetch_data_source", "DataSource", spec, policy)
    (folder / "config.json").write_text(config.model_dump_json())
    command = [
        sys.executable,
        "-m",
        "steelyard.steps.fetch_data_source",
        "--config",
        str(folder / "config.json"),
    ]
    environment = {**os.environ, "STEELYARD_TERMINATION_LOG": str(folder / "last-words")}
    return subprocess.Popen(command, env=environment)
