"""Hosted models on one machine: evaluations that a provider on loopback answers, caps that end them, and kills."""

import asyncio
import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp import web

from steelyard.client import Client, WorkflowFailed, presets
from steelyard_common.types import Json
from steelyard_evaluation.hosted.doubles import KEY, FakeProvider
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.dataset import Dataset
from steelyard_schema.evaluation import Evaluation
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.spending import ServiceSpending
from tests.integration.conftest import Machine, processes_of
from tests.integration.small import ACCOUNT
from tests.integration.spending import check_killed_writers
from tests.integration.test_platform_kills import SEED

ROWS = 120
SECONDS = 600.0
SNAPSHOTS: list[Json] = [{"model": "large-1", "system_fingerprint": "fp_1"}, {"model": "large-2"}]
PROGRAM = "steelyard.steps.hosted_model"

pytestmark = pytest.mark.e2e


@contextmanager
def providing(provider: FakeProvider) -> Iterator[tuple[str, asyncio.AbstractEventLoop]]:
    """Serve a provider from a thread of its own, whose loop it gives: the client of the test blocks."""
    loop, runner = asyncio.new_event_loop(), web.AppRunner(provider.app(), shutdown_timeout=0.0)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return int(runner.addresses[0][1])

    port = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/v1", loop
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def allowed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine that may call loopback, with the provider's key as a secret."""
    monkeypatch.setenv("STEELYARD_EGRESS__SERVICES", '["http://127.0.0.1"]')
    monkeypatch.setenv("STEELYARD_EGRESS__NETWORKS", '["127.0.0.0/8"]')
    machine.up()
    with machine.client() as client:
        client.secrets.set(ACCOUNT, "provider-key", KEY)
    return machine


def questions(client: Client, folder: Path) -> Dataset:
    folder.mkdir()
    asked = [f"question {number}" for number in range(ROWS)]
    rows = {"_index_": range(ROWS), "prompt": asked, "answer": ["word"] * ROWS}
    pq.write_table(pa.table({name: list(column) for name, column in rows.items()}), folder / "q.parquet")
    return client.datasets.create_from_folder(folder, account=ACCOUNT, name="questions")


def hosted(client: Client, url: str, **limits: str | int) -> InferenceService:
    return client.inferenceservices.create(
        account=ACCOUNT,
        name="hosted",
        runner=presets.hosted(url, "large", max_output_tokens=40, concurrent_requests=8, **limits),
        interface=presets.chat("prompt", temperature=0),
        secrets={"provider": "provider-key"},
    )


def evaluation(client: Client, dataset: Dataset, service: InferenceService) -> Evaluation:
    session = {"inferenceService": service.id}
    return client.evaluations.create(
        account=ACCOUNT, dataset=dataset.id, inferenceSession=session, workersPerReplica=8
    )


def settled(client: Client, service: InferenceService, seconds: float = SECONDS) -> ServiceSpending:
    """Return the spending once the session's Pods have ended, and say no more."""
    end = time.monotonic() + seconds
    while True:
        spending = client.inferenceservices.spending(service.id)
        if spending.updated is None or time.monotonic() > end:
            return spending
        time.sleep(0.2)


def test_an_evaluation_is_answered_by_a_provider_until_a_cap(allowed: Machine, tmp_path: Path) -> None:
    provider = FakeProvider(seconds=0.01, snapshots=SNAPSHOTS)
    with providing(provider) as (url, _), allowed.client() as client:
        dataset = questions(client, tmp_path / "questions")
        service = hosted(client, url, tokens_total=60_000)
        made = evaluation(client, dataset, service)
        assert client.evaluations.wait(made.id, timeout=SECONDS).status == "Complete"
        report = client.reports.create(account=ACCOUNT, rubric="exact-match", evaluation=made.id)
        client.reports.wait(report.id, timeout=SECONDS)
        client.reports.download(report.id, tmp_path / "report")
        numbers = json.loads((tmp_path / "report" / "report.json").read_text())
        servers = sorted((server["runner"], server["version"]) for server in numbers["servers"])
        assert servers == [("127.0.0.1", "large-1 (fp_1)"), ("127.0.0.1", "large-2")]
        spending = settled(client, service)
        assert spending.total.calls == len(provider.bodies) == ROWS
        assert spending.total.inputTokens + spending.total.outputTokens == provider.total_tokens

        before, cap = (provider.read, provider.written), Decimal("0.01")
        dear = hosted(client, url, cost_total=str(cap), input_price="1", output_price="10")
        ended = evaluation(client, dataset, dear)
        with pytest.raises(WorkflowFailed, match="SpendCapReached"):
            client.evaluations.wait(ended.id, timeout=SECONDS)
        ended = client.evaluations.get(ended.id)
        assert (ended.status, ended.reason) == ("Failed", "SpendCapReached")
        assert "the cap of 0.01 USD in total " in (ended.message or "")
        assert f"of {ROWS} rows are done" in (ended.message or "")
        bill = Decimal(provider.read - before[0]) + 10 * Decimal(provider.written - before[1])
        cost = Decimal(settled(client, dear).total.cost or 0)
        assert 0 < bill / 1_000_000 == cost <= cap
    allowed.down()  # Pods that end take their files with them
    files = [path for path in allowed.state.path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_kills_of_the_runner_amid_calls_never_pass_the_cap(allowed: Machine, tmp_path: Path) -> None:
    provider, cap, stops = FakeProvider(), 30_000, [20, 60]

    def hold_answers(_: Json) -> None:
        """Answer nobody from the next of `stops` on, until the runner is dead."""
        if stops and len(provider.bodies) >= stops[0]:
            stops.pop(0)
            provider.open.clear()

    async def answer_again() -> None:
        provider.open.set()

    provider.refusal = hold_answers
    with providing(provider) as (url, loop), allowed.client() as client:
        dataset = questions(client, tmp_path / "questions")
        service = hosted(client, url, tokens_total=cap)
        made = evaluation(client, dataset, service)
        for _ in range(2):
            until = time.monotonic() + SECONDS
            while provider.open.is_set():
                assert time.monotonic() < until, client.evaluations.get(made.id)
                time.sleep(0.01)
            runners = [
                int(process.partition(":")[0])
                for process in processes_of(allowed.state.path)
                if PROGRAM in process and "shim" not in process
            ]
            assert runners
            for pid in runners:
                os.kill(pid, signal.SIGKILL)
            asyncio.run_coroutine_threadsafe(answer_again(), loop).result(SECONDS)
        assert client.evaluations.wait(made.id, timeout=SECONDS).status == "Complete"
        spending = client.inferenceservices.spending(service.id)
        counted = spending.total.inputTokens + spending.total.outputTokens + spending.heldTokens
        assert spending.heldTokens > 0
        assert provider.total_tokens <= counted <= cap


async def test_whatever_killed_processes_have_spent_stands_in_the_ledger(tmp_path: Path) -> None:
    await check_killed_writers(open_store(f"file://{tmp_path}"), random.Random(SEED))
