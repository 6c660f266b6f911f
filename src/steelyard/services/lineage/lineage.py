"""The service that reports the runs of workflows to a receiver of OpenLineage.

It follows `workflows.state` and changes nothing of it. A receiver that is away is tried again until it is back; no
other service waits for that. An event is sent at least once: twice after a crash, with the same run and time.
"""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Protocol

import orjson
from prometheus_client import CollectorRegistry, Counter

from steelyard.broker.follow import follow
from steelyard.broker.log import STATE, Log, Record
from steelyard.services.aggregator.messages import State, read_state
from steelyard.services.lineage.occurrences import Occurrence, Runs
from steelyard_common.errors import UsageError, is_engine_failure
from steelyard_evaluation.storage.store import ObjectMissing, StorageError, Store
from steelyard_kube.leader import until
from steelyard_schema.base import DyffEntity
from steelyard_schema.entities import parse_entity

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

    from steelyard.services.lineage.events import Names

CONSUMER = "lineage"
POSITIONS = ".steelyard/lineage.json"
"""Object of the storage with the consumer's positions and the runs that have begun."""
TIMEOUT_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
_PERMANENT = frozenset({400, 413, 422})
"""Statuses of a receiver that understood an event and will never take it."""
_log = logging.getLogger(__name__)


class Unavailable(Exception):
    """The receiver does not answer, or not in a way that says anything about the event."""


class NotTaken(Exception):
    """The receiver will never take the event."""


class Receiver(Protocol):
    """Receiver of events."""

    async def emit(self, event: "RunEvent") -> None:
        """Send an event. Raises Unavailable, NotTaken."""
        ...


class HttpReceiver:
    """A receiver of OpenLineage's API, by OpenLineage's own client."""

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ) -> None:
        """Raises UsageError for any other address, and where the client is not installed."""
        try:
            from openlineage.client import OpenLineageClient
            from openlineage.client.transport.http import (
                ApiKeyTokenProvider,
                HttpConfig,
                HttpTransport,
                TokenProvider,
            )
        except ImportError as error:
            raise UsageError(f"lineage needs {error.name}: pip install 'steelyard[openlineage]'") from error
        key = environment.get("OPENLINEAGE_API_KEY")
        config = HttpConfig(
            url=url,
            endpoint=environment.get("OPENLINEAGE_ENDPOINT") or "api/v1/lineage",
            timeout=TIMEOUT_SECONDS,
            auth=ApiKeyTokenProvider({"apiKey": key}) if key else TokenProvider({}),
            # Repeats are this service's: the client's own would hold a thread that the process's end waits for.
            retry={"total": 0},
        )
        try:
            self._client = OpenLineageClient(transport=HttpTransport(config))
        except ValueError as error:
            raise UsageError(f"telemetry.openlineage_url: {error}") from error

    async def emit(self, event: "RunEvent") -> None:
        from requests import RequestException

        try:
            await asyncio.to_thread(self._client.emit, event)
        except RequestException as error:
            if error.response is not None and error.response.status_code in _PERMANENT:
                raise NotTaken(str(error)) from error
            raise Unavailable(str(error)) from error


def receiver_url(setting: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the receiver's address: the standard variable's, else the setting's; empty where there is none."""
    if environment.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return ""
    return environment.get("OPENLINEAGE_URL") or setting


class LineageMetrics:
    """Events that were sent, and events that were not."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.events = Counter(
            "steelyard_lineage_events", "Events sent to OpenLineage.", ["type"], registry=registry
        )
        self.retries = Counter(
            "steelyard_lineage_retries", "Tries that failed and are repeated.", registry=registry
        )
        self.left_out = Counter(
            "steelyard_lineage_left_out",
            "Events that the receiver refused for good, or that could not be made.",
            registry=registry,
        )


async def run_lineage(
    log: Log,
    store: Store,
    receiver: Receiver,
    names: "Names",
    *,
    stop: asyncio.Event,
    metrics: LineageMetrics | None = None,
    rng: Random | None = None,
) -> None:
    """Report past events since the last time, and new ones, until `stop`."""
    outlet = LineageOutlet(log, store, receiver, names, metrics or LineageMetrics(), rng or Random())
    # Cancelled at `stop`, also while it waits for a receiver that is away.
    await until(stop, follow(log, STATE, outlet, consumer=CONSUMER, stop=stop))


@dataclass(frozen=True)
class Progress:
    """Content of the object in the storage: how far which log was read, and the runs that have begun."""

    log: str
    epoch: int
    positions: dict[int, int]
    runs: Runs


class LineageOutlet:
    """Events first, positions last. It takes every record: a fault of one is counted, and no entity waits for it."""

    def __init__(
        self,
        log: Log,
        store: Store,
        receiver: Receiver,
        names: "Names",
        metrics: LineageMetrics,
        rng: Random,
    ) -> None:
        self._log, self._store, self._receiver, self._names = log, store, receiver, names
        self._metrics, self._rng = metrics, rng
        self._runs = Runs()
        self._at: dict[int, int] = {}

    async def positions(self, epoch: int) -> Mapping[int, int]:
        progress = await read_progress(self._store)
        if progress is not None:
            # Runs outlive the log that they were read from: one that has begun has to end.
            self._runs = progress.runs
        same = progress is not None and (progress.log, progress.epoch) == (self._log.id, epoch)
        self._at = dict(progress.positions) if progress is not None and same else {}
        return self._at

    async def apply(self, records: Sequence[Record], epoch: int, positions: Mapping[int, int]) -> None:
        for record in records:
            await self._send_events(record)
        self._at.update(positions)
        runs = {"running": self._runs.running, "aborted": self._runs.aborted}
        content = {"log": self._log.id, "epoch": epoch, "positions": self._at, **runs}
        data = orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS)
        pause = FIRST_PAUSE
        while True:
            try:
                await self._store.put(POSITIONS, data)
            except StorageError as error:
                _log.warning("lineage: the positions cannot be kept, trying again: %s", error)
                pause = await self._rest(pause)
            else:
                return

    async def _send_events(self, record: Record) -> None:
        try:
            state = read_state(record)
            if state is None:
                return
            if state.content is None:
                self._runs.forget(record.key)
                return
            events = await self._events(state)
        except Exception as error:
            if is_engine_failure(error):
                raise
            # An entity that cannot be read is for others to report.
            _log.exception("lineage: %s cannot be sent", record.key)
            self._metrics.left_out.inc()
            return
        for occurrence, event in events:
            await self._send(event)
            deleted = state.content["status"] == "Deleted"
            self._runs.note(record.key, occurrence, deleted=deleted)

    async def _events(self, state: State) -> "list[tuple[Occurrence, RunEvent]]":
        from steelyard.services.lineage.events import make_event

        assert state.content is not None
        commanded = datetime.fromisoformat(state.headers["time"])
        occurrences = self._runs.occurrences(state.content, commanded)
        if not occurrences:
            return []
        entity = parse_entity(state.content)
        return [
            (occurrence, await make_event(entity, occurrence, self._names, self._find))
            for occurrence in occurrences
        ]

    async def _find(self, id: str) -> DyffEntity | None:
        state = read_state(await self._log.latest(STATE, id))
        return parse_entity(state.content) if state is not None and state.content is not None else None

    async def _send(self, event: "RunEvent") -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._receiver.emit(event)
            except Unavailable as error:
                level = logging.WARNING if pause == FIRST_PAUSE else logging.DEBUG
                _log.log(level, "lineage: trying again until the receiver takes it: %s", error)
                self._metrics.retries.inc()
                pause = await self._rest(pause)
            except NotTaken as error:
                _log.error("lineage: left out, the receiver refuses it: %s", error)
                self._metrics.left_out.inc()
                return
            else:
                self._metrics.events.labels(event.eventType.value if event.eventType else "").inc()
                return

    async def _rest(self, pause: float) -> float:
        """Wait with jitter; return the next pause."""
        await asyncio.sleep(pause * (0.5 + self._rng.random() / 2))
        return min(pause * 2, LONGEST_PAUSE)


async def read_progress(store: Store) -> Progress | None:
    """Return what the storage keeps; None where nothing is there, or nothing that can be read."""
    try:
        content = orjson.loads(await store.get(POSITIONS))
        positions = {int(partition): int(offset) for partition, offset in content["positions"].items()}
        runs = Runs(_attempts(content["running"]), _attempts(content["aborted"]))
        return Progress(str(content["log"]), int(content["epoch"]), positions, runs)
    except ObjectMissing:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        _log.warning("lineage: %s cannot be read, everything is sent again: %s", POSITIONS, error)
        return None


def _attempts(content: Mapping[str, int]) -> dict[str, int]:
    return {str(id): int(attempt) for id, attempt in content.items()}
