"""One machine whose services are processes of their own, with a report that is made, and a receiver of its webhooks."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.client import Client
from steelyard.local.detached import UpOptions, start_detached
from steelyard_schema.account import AccessGrant
from tests.integration import small
from tests.integration.conftest import Machine, machine_at
from tests.integration.http_server import QuietHandler, http_server
from tests.integration.test_metrics import ALONE, VARIABLES

SECONDS = 180.0
ROWS = 120
SETTINGS = """
[egress]
webhooks = ["http://127.0.0.1"]
networks = ["127.0.0.0/8"]
"""
SOURCE = pa.table(
    {
        "_index_": pa.array([0, 1], pa.int64()),
        "first name": ["Ada", "日本"],
        "weight": [0.5, 1.25],
        "right": [True, False],
        "choices": pa.array([["a", "b"], ["c"]]),
        "more": pa.array([{"year": 2020}, {"year": 2021}]),
    }
)
Delivery = tuple[dict[str, str], str]
"""Headers and body."""


@dataclass
class Receiver:
    """Receiver of webhooks that accepts everything."""

    url: str = ""
    deliveries: list[Delivery] = field(default_factory=list)


@dataclass(frozen=True)
class Running:
    """A running platform, and its entities."""

    machine: Machine
    client: Client
    made: small.Small
    named: str
    """Id of a dataset with columns of several names and types."""
    receiver: Receiver
    owner: str
    webhook: str
    secret: str


def until(done: Callable[[], object], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < end, f"not within {SECONDS:g} s: {what}"
        time.sleep(0.1)


@contextmanager
def receiver() -> Iterator[Receiver]:
    kept = Receiver()

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 (the name that http.server calls)
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            kept.deliveries.append((dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

    with http_server(Handler) as origin:
        kept.url = f"{origin}/hook"
        yield kept


@contextmanager
def service(machine: Machine, settings: Path, name: str) -> Iterator[None]:
    command = [sys.executable, "-m", "steelyard.cli.main", "service", name, "--settings", str(settings)]
    process = subprocess.Popen([*command, "--state-dir", str(machine.state.path)])
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("readers")
    (folder / "steelyard.toml").write_text(SETTINGS)
    (folder / "named").mkdir()
    pq.write_table(SOURCE, folder / "named" / "rows of names.parquet")
    with (
        machine_at(folder / "state") as machine,
        pytest.MonkeyPatch.context() as environment,
        receiver() as events,
        ExitStack() as stack,
    ):
        for name, value in VARIABLES.items():
            environment.setenv(name, value)
        options = UpOptions(without=ALONE, settings=folder / "steelyard.toml")
        start_detached(machine.state.path, options)
        for name in ALONE:
            stack.enter_context(service(machine, folder / "steelyard.toml", name))
        client = stack.enter_context(machine.client())
        owner = client.accounts.create(small.ACCOUNT).id or ""
        grant = AccessGrant(resources=["*"], functions=["get"], accounts=[small.ACCOUNT])
        client.accounts.set_permissions(owner, [grant])
        webhook = client.webhooks.create(owner, events.url)
        made = small.make(client, folder / "rows", rows=ROWS)
        named = client.datasets.create_from_folder(
            folder / "named", account=small.ACCOUNT, name="names", wait=True
        )
        client.reports.wait(made.report, timeout=SECONDS)
        yield Running(
            machine, client, made, named.id, events, owner, webhook.webhook.id or "", webhook.secret
        )
