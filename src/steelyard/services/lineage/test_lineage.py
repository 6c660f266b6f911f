"""Runs as a receiver of OpenLineage gets them, on a log in memory."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

import orjson
import pyarrow as pa
import pytest
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde
from prometheus_client import CollectorRegistry

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import STATE, Message
from steelyard.services.lineage import lineage
from steelyard.services.lineage.events import Names, run_id
from steelyard.services.lineage.lineage import LineageMetrics, NotTaken, Unavailable, run_lineage
from steelyard.services.simulation.entities import (
    make_data_source,
    make_dataset,
    make_dataset_of_source,
    make_evaluation,
    make_measurement,
    make_model,
)
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import Store, open_store
from steelyard_schema.base import DyffEntity
from steelyard_schema.commands import command_time

START = datetime(2026, 1, 1, tzinfo=UTC)
EVALUATION = make_evaluation("e1")
_numbers = count()


@dataclass
class LineageHarness:
    """A log, a storage and a receiver; `faults` are what the receiver does with its next events."""

    log: MemoryLog = field(default_factory=MemoryLog)
    store: Store = field(default_factory=lambda: open_store(f"memory://lineage-{next(_numbers)}"))
    events: list[Json] = field(default_factory=list)
    faults: list[Exception] = field(default_factory=list)
    minutes: int = 0
    _offset: int = 0

    async def emit(self, event: RunEvent) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.events.append(orjson.loads(Serde.to_json(event)))

    async def becomes(self, entity: DyffEntity, status: str, *, edit: bool = False, **more: Any) -> None:
        """Write a state: a new status at a new minute, or an edit that changes none."""
        self.minutes += 1
        now = command_time(START + timedelta(minutes=self.minutes))
        since = command_time(START + timedelta(minutes=self.minutes - 1)) if edit else now
        content = {**entity.dump(), "status": status, "lastTransitionTime": since, **more}
        self._offset += 1
        headers = {"time": now, "epoch": "1", "partition": "0", "offset": str(self._offset)}
        await self.log.publish([Message(STATE, entity.id, orjson.dumps(content), headers)])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The service; it has sent all that it has read when the block is left."""
        stop = asyncio.Event()
        metrics = LineageMetrics(CollectorRegistry())
        names = Names("steelyard", "s3://bucket/platform")
        service = asyncio.create_task(
            run_lineage(self.log, self.store, self, names, stop=stop, metrics=metrics, rng=Random(1))
        )
        try:
            yield
            await self.until(self._is_kept)
        finally:
            stop.set()
            await service

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(60):
            while not await holds():  # noqa: ASYNC110 - what was kept tells nobody
                await asyncio.sleep(0.005)

    async def _is_kept(self) -> bool:
        progress = await lineage.read_progress(self.store)
        at = progress.positions if progress else {}
        unread = await self.log.unread(STATE, {**dict.fromkeys(range(self.log.partitions), 0), **at})
        return not any(unread.values())

    def types(self) -> str:
        return " ".join(event["eventType"] for event in self.events)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "FIRST_PAUSE", 0.001)


LIVES = {
    "it ends well": (["Created", "Admitted", "Complete"], "START COMPLETE"),
    "it fails": (["Created", "Admitted", "Failed"], "START FAIL"),
    "it fails before it runs": (["Created", "Failed"], "START FAIL"),
    "it is terminated": (["Created", "Admitted", "Terminated"], "START ABORT"),
    "it is deleted while it runs": (["Created", "Admitted", "Deleted"], "START ABORT"),
    "it is deleted before it runs": (["Created", "Deleted"], ""),
    "it is deleted when it is over": (["Created", "Admitted", "Complete", "Deleted"], "START COMPLETE"),
    "its reasons change": (["Created", "Admitted", "Admitted", "Complete"], "START COMPLETE"),
}


@pytest.mark.parametrize(("statuses", "types"), LIVES.values(), ids=LIVES)
async def test_a_life_is_reported(statuses: list[str], types: str) -> None:
    harness = LineageHarness()
    async with harness.running():
        for status in statuses:
            await harness.becomes(EVALUATION, status)
            await harness.until(harness._is_kept)
    assert harness.types() == types
    assert {event["run"]["runId"] for event in harness.events} <= {run_id("e1", 1)}


async def test_an_edit_of_what_has_ended_is_no_second_end() -> None:
    harness = LineageHarness()
    async with harness.running():
        await harness.becomes(EVALUATION, "Admitted")
        await harness.until(harness._is_kept)
        await harness.becomes(EVALUATION, "Complete")
        await harness.until(harness._is_kept)
        await harness.becomes(EVALUATION, "Complete", edit=True)
    assert harness.types() == "START COMPLETE"


async def test_what_was_restored_runs_a_second_time() -> None:
    harness = LineageHarness()
    async with harness.running():
        for status in ("Admitted", "Deleted", "Admitted", "Complete"):
            await harness.becomes(EVALUATION, status)
            await harness.until(harness._is_kept)
    assert harness.types() == "START ABORT START COMPLETE"
    first, second = run_id("e1", 1), run_id("e1", 2)
    assert [event["run"]["runId"] for event in harness.events] == [first, first, second, second]


async def test_a_restart_goes_on_where_it_was() -> None:
    harness = LineageHarness()
    async with harness.running():
        await harness.becomes(EVALUATION, "Admitted")
    await harness.becomes(
        EVALUATION, "Deleted"
    )  # without the run that began, nothing would report that it ended
    async with harness.running():
        pass
    assert harness.types() == "START ABORT"


async def test_a_receiver_that_is_away_gets_all_once_it_is_back() -> None:
    harness = LineageHarness(faults=[Unavailable("connection refused")] * 5)
    async with harness.running():
        await harness.becomes(EVALUATION, "Admitted")
        await harness.until(harness._is_kept)
        await harness.becomes(EVALUATION, "Complete")
    assert harness.types() == "START COMPLETE"


async def test_what_was_told_and_not_kept_is_reported_again() -> None:
    harness = LineageHarness()
    async with harness.running():
        await harness.becomes(EVALUATION, "Admitted")
    before = list(harness.events)
    with suppress(KeyError):
        await harness.store.delete(lineage.POSITIONS)  # as if the process had died between the two
    async with harness.running():
        pass
    assert harness.events == before * 2


async def test_what_the_receiver_refuses_for_good_holds_up_nothing() -> None:
    harness = LineageHarness(faults=[NotTaken("422")])
    async with harness.running():
        await harness.becomes(EVALUATION, "Admitted")
        await harness.until(harness._is_kept)
        await harness.becomes(EVALUATION, "Complete")
    assert harness.types() == "COMPLETE"


async def test_a_stop_does_not_wait_for_a_receiver_that_is_away() -> None:
    harness, stop = LineageHarness(), asyncio.Event()
    harness.faults = [Unavailable("connection refused")] * 10_000
    await harness.becomes(EVALUATION, "Admitted")
    names = Names("steelyard", "file:///data")
    service = asyncio.create_task(run_lineage(harness.log, harness.store, harness, names, stop=stop))
    while len(harness.faults) == 10_000:  # noqa: ASYNC110 - the receiver tells nobody that it was asked
        await asyncio.sleep(0.001)
    stop.set()
    async with asyncio.timeout(60):
        await service
    assert not harness.events


async def test_inputs_and_outputs_are_files_with_their_versions_and_schemas() -> None:
    harness = LineageHarness()
    async with harness.running():
        await harness.becomes(make_dataset(EVALUATION.dataset), "Ready")
        await harness.until(harness._is_kept)
        await harness.becomes(EVALUATION, "Admitted")
    (event,) = harness.events
    (dataset,) = (files for files in event["inputs"] if files["name"].startswith("platform/datasets/"))
    assert dataset["namespace"] == "s3://bucket"
    assert dataset["name"] == f"platform/datasets/{EVALUATION.dataset}"
    assert dataset["facets"]["version"]["datasetVersion"].startswith("sha256:")
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("s3://bucket", "platform/evaluations/e1")
    assert output["facets"]["version"]["datasetVersion"] == "e1"
    assert event["job"] == {
        "namespace": "steelyard",
        "name": f"{EVALUATION.account}.evaluation.e1",
        "facets": event["job"]["facets"],
    }


async def test_a_measurement_reads_its_data_and_its_code_and_has_the_schema_of_its_method() -> None:
    schema = pa.schema([pa.field("double", pa.int64())]).serialize().to_pybytes()
    measurement = make_measurement(schema={"arrowSchema": base64.b64encode(schema).decode()})
    harness = LineageHarness()
    async with harness.running():
        await harness.becomes(measurement, "Admitted")
    (event,) = harness.events
    assert [files["name"] for files in event["inputs"]] == ["platform/datasets/d1", "platform/modules/x1"]
    (output,) = event["outputs"]
    assert output["name"] == "platform/measurements/n1"
    fields = output["facets"]["schema"]["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [("double", "int64")]


async def test_uploaded_datasets_have_no_run_and_models_and_datasets_of_sources_have_one() -> None:
    harness = LineageHarness()
    async with harness.running():
        await harness.becomes(make_dataset("d1"), "Ready")
        await harness.becomes(make_data_source("c1", sourceKind="upload"), "Ready")
        await harness.becomes(make_model("m1"), "Ready")
        await harness.becomes(make_dataset_of_source("d2", "c1"), "Ready")
    assert [
        (event["eventType"], event["job"]["facets"]["jobType"]["jobType"]) for event in harness.events
    ] == [
        ("START", "MODEL"),
        ("COMPLETE", "MODEL"),
        ("START", "DATASET"),
        ("COMPLETE", "DATASET"),
    ]
    made = harness.events[-1]
    assert [files["name"] for files in made["inputs"]] == ["platform/datasources/c1"]
    assert made["outputs"][0]["facets"]["version"]["datasetVersion"] == "d2"
