"""Records of the servers that an evaluation asks, each written next to the answers as soon as its version is known."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import orjson

from steelyard.runners.record import provider_record, service_record, version_in
from steelyard.runners.table import kind_of_runner
from steelyard.runners.weights import CONFIG_BYTES, precision_in
from steelyard.steps.volume import input_store
from steelyard_common.discovery import Discovery
from steelyard_common.types import Json
from steelyard_evaluation.engine.record import record_server
from steelyard_evaluation.hosted.snapshots import PATH, Snapshot, snapshots_in
from steelyard_evaluation.storage.store import StorageError, Store
from steelyard_schema.hosted_model import HostedModel, is_hosted, read_hosted_model
from steelyard_schema.resources import EvaluationResourceSpec

PAUSE_SECONDS = 1.0
ANSWER_SECONDS = 5.0


@contextlib.asynccontextmanager
async def servers_recorded(
    spec: EvaluationResourceSpec, replicas: Discovery, output: Store
) -> AsyncIterator[None]:
    """Record the server of each replica that is there while the block runs; if none reports one, the service's."""
    service = spec.inferenceSession.inferenceService.dump()
    recorder: _Recorder | _SnapshotRecorder
    if is_hosted(service.get("runner") or {}):
        recorder = _SnapshotRecorder(read_hosted_model(service["runner"]), replicas, output)
    elif not service.get("runner") or service_record(service) is None:
        yield
        return
    else:
        recorder = _Recorder(service, await _precision(spec), replicas, output)
    recording = asyncio.create_task(recorder.record_always())
    try:
        yield
    finally:
        recording.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await recording
        await recorder.end()


class _SnapshotRecorder:
    """The snapshots of a provider's model that the servers of a hosted model have seen so far."""

    def __init__(self, model: HostedModel, replicas: Discovery, output: Store) -> None:
        self._model, self._replicas, self._output = model, replicas, output
        self._recorded: set[Snapshot] = set()

    async def record_always(self) -> None:
        while True:
            await self._record_new()
            await asyncio.sleep(PAUSE_SECONDS)

    async def end(self) -> None:
        """Record what the last answers have named; where none did, the model is recorded without a version."""
        await self._record_new()
        if not self._recorded:
            await self._record("")

    async def _record_new(self) -> None:
        import aiohttp

        from steelyard_common.connections import TrackingConnector

        async with aiohttp.ClientSession(
            connector=TrackingConnector(), timeout=aiohttp.ClientTimeout(ANSWER_SECONDS)
        ) as session:
            for address in await self._replicas.addresses():
                # A server that is away, or of an earlier version, reports nothing: the evaluation goes on.
                with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
                    async with session.get(f"{address}{PATH}", allow_redirects=False) as response:
                        snapshots = snapshots_in(orjson.loads(await response.read()))
                    for snapshot in snapshots:
                        if snapshot not in self._recorded:
                            await self._record(str(snapshot))
                            self._recorded.add(snapshot)

    async def _record(self, version: str) -> None:
        host = urlsplit(self._model.base_url).hostname or ""
        await record_server(self._output, provider_record(host, self._model.model, version).json())


class _Recorder:
    """The versions that the replicas of one service have said so far."""

    def __init__(self, service: Json, weights: str, replicas: Discovery, output: Store) -> None:
        self._service, self._weights, self._replicas, self._output = service, weights, replicas, output
        kind = kind_of_runner(service["runner"])
        self._path = kind.version_path if kind else ""
        self._asked: set[str] = set()
        self.versions: set[str] = set()

    async def record_always(self) -> None:
        import aiohttp  # an evaluation of a program without a known version spares it

        from steelyard_common.connections import TrackingConnector

        if not self._path:
            return
        async with aiohttp.ClientSession(
            connector=TrackingConnector(), timeout=aiohttp.ClientTimeout(ANSWER_SECONDS)
        ) as session:
            while True:
                for address in await self._replicas.addresses() - self._asked:
                    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
                        async with session.get(f"{address}{self._path}", allow_redirects=False) as response:
                            version = version_in(orjson.loads(await response.read()))
                        # Only after an answer: a replica that still loads is asked again.
                        self._asked.add(address)
                        if version not in self.versions:
                            await self.record(version)
                            self.versions.add(version)
                await asyncio.sleep(PAUSE_SECONDS)

    async def end(self) -> None:
        """Record the service without a version where no server has reported one: it was asked all the same."""
        if not self.versions:
            await self.record("")

    async def record(self, version: str) -> None:
        record = service_record(self._service, version=version, weights=self._weights)
        assert record is not None
        await record_server(self._output, record.json())


async def _precision(spec: EvaluationResourceSpec) -> str:
    """Return the type of the numbers that the model's own configuration names."""
    runner = spec.inferenceSession.inferenceService.runner
    for mount in (runner.volumeMounts if runner else None) or []:
        if mount.data is not None and mount.name in spec.storage.inputs:
            with contextlib.suppress(StorageError):
                store = input_store(spec.storage.inputs, mount.name)
                small = (await store.head("config.json")).size <= CONFIG_BYTES
                return precision_in(await store.get("config.json")) if small else ""
    return ""
