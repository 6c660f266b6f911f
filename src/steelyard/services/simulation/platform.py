"""The orchestrator in a world in memory, with hands that act in it and eyes that look. For tests."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from steelyard.accounts.database import Claim, Claims
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, STATE, Log, Message, Record
from steelyard.broker.partition import partition_of
from steelyard.kube.leader import Candidate, SystemClock, Timing
from steelyard.kube.memory import MemoryCluster
from steelyard.kube.resource import PODS, Resource
from steelyard.schema.base import DyffEntity
from steelyard.schema.commands import CreateEntity, ForgetEntity, command_time
from steelyard.schema.entities import AnyEntity, entity_of
from steelyard.schema.names import namespace_of, resource_name
from steelyard.schema.status import Source
from steelyard.services.aggregator.run import run_aggregator
from steelyard.services.informer.run import run_informer
from steelyard.services.orchestrator.admission import Limits
from steelyard.services.orchestrator.leader import Means
from steelyard.services.orchestrator.manifest import KUBE
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.run import orchestrate
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.services.simulation.commands import restore
from steelyard.services.simulation.entities import START
from steelyard.services.status_commands import Status, status_command
from steelyard.types import Json

QUICK = OrchestratorSettings(
    reconcile_seconds=0.2, release_seconds=0.02, recreate_seconds=0.02, retell_seconds=0.05, workers=2
)
_IDS = count()
"""Of commands, of all benches: several may share one log."""
TIMING = Timing(duration=1, deadline=0.6, retry=0.05)


class _BenchClock(SystemClock):
    """Leases by the machine's time; what is written down has the bench's."""

    def __init__(self, bench: "Bench") -> None:
        self._bench = bench

    def now(self) -> datetime:
        return self._bench.now


@dataclass
class Bench:
    """Everything that outlives an orchestrator, and the orchestrators that run in it."""

    claims: Claims
    limits: Limits
    log: Log = field(default_factory=MemoryLog)
    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    settings: OrchestratorSettings = QUICK
    now: datetime = START + timedelta(minutes=1)
    metrics: OrchestratorMetrics = field(default_factory=OrchestratorMetrics)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def new_id(self) -> str:
        """The id of a command."""
        return f"command-{next(_IDS)}"

    # ---- what runs

    def start(self, owner: str = "one") -> asyncio.Task[None]:
        """An orchestrator, until it is cancelled or dies."""
        means = Means(
            self.log,
            self.claims,
            self.cluster,
            self.settings,
            self.limits,
            lambda entity: {"slots": "1"},
            self.metrics,
            Candidate(owner, _BenchClock(self), timing=TIMING),
            self.new_id,
        )
        return self._run(orchestrate(means, asyncio.Event()))

    def aggregate(self) -> None:
        self._run(run_aggregator(self.log, stop=asyncio.Event()))

    def inform(self, identity: str = "one") -> asyncio.Task[None]:
        """An informer, until it is cancelled."""
        candidate = Candidate(identity, SystemClock(), timing=TIMING)
        return self._run(run_informer(self.log, self.cluster, candidate=candidate, stop=asyncio.Event()))

    def _run(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.append(task)
        return task

    async def kill(self, task: asyncio.Task[None]) -> None:
        """The process is gone; what it wrote stays."""
        task.cancel()
        with suppress(BaseException):
            await task

    async def close(self) -> None:
        for task in self._tasks:
            await self.kill(task)

    # ---- hands

    async def create(self, *entities: DyffEntity) -> None:
        """As the API does: the command is in the log."""
        await self.log.publish([_creation(each) for each in entities])

    async def tell(
        self, entity: DyffEntity, status: str, reason: str | None = None, source: Source = "api"
    ) -> None:
        said = Status(status, reason)
        kind = entity.dump()["kind"]
        command = status_command(entity.id, kind, said, source=source, time=self.now, command=self.new_id())
        await self.log.publish([command])

    async def forget(self, entity: DyffEntity) -> None:
        command = ForgetEntity.model_validate({"data": {"id": entity.id, "kind": entity.dump()["kind"]}})
        headers = {"id": self.new_id(), "source": "reaper", "time": command_time(self.now)}
        await self.log.publish([Message(EVENTS, entity.id, command.dump_json(), headers)])

    async def restore(self, entity: DyffEntity) -> None:
        """Restore an entity from a backup, as an administrator does."""
        headers = {"id": self.new_id(), "source": "api", "time": command_time(self.now)}
        await self.log.publish([Message(EVENTS, entity.id, restore(entity).dump_json(), headers)])

    def finish(self, entity: DyffEntity, condition: str = "Complete") -> None:
        """The resource ends by itself, as the operator would write it."""
        self._set(entity, [_condition(condition), _condition("Finished")])

    def say(self, entity: DyffEntity, condition: str, reason: str, message: str = "") -> None:
        """The resource's one condition that holds, as the operator would write it."""
        self._set(entity, [{**_condition(condition), "reason": reason, "message": message}])

    def _set(self, entity: DyffEntity, conditions: list[Json]) -> None:
        resource, name = place_of(entity)
        status = {"conditions": conditions}
        self.cluster.store.set_status(resource, name, namespace_of(entity.account), status)

    def pod(self, entity: DyffEntity, phase: str) -> None:
        """A Pod of the entity's workflow."""
        metadata = {
            "name": f"pod-of-{entity.id}",
            "namespace": namespace_of(entity.account),
            "labels": {"steelyard/entity": entity.id},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": phase}}
        self.cluster.store.put(pod, PODS)

    def remove(self, entity: DyffEntity) -> None:
        """By hand."""
        resource, name = place_of(entity)
        self.cluster.store.remove(resource, name, namespace_of(entity.account))

    # ---- eyes

    async def entity(self, id: str) -> AnyEntity:
        record = await self.log.latest(STATE, id)
        assert record is not None
        assert record.value
        return entity_of(record.value)

    async def status(self, id: str) -> str:
        """Empty before the entity is there."""
        return (await self.entity(id)).status if await self.log.latest(STATE, id) else ""

    async def message(self, id: str) -> str:
        return (await self.entity(id)).message or "" if await self.log.latest(STATE, id) else ""

    def resource(self, entity: DyffEntity) -> Json | None:
        resource, name = place_of(entity)
        return self.cluster.store.find(resource, name, namespace_of(entity.account))

    def made(self, entity: DyffEntity) -> int:
        """How often the entity's resource was made."""
        resource, name = place_of(entity)
        changes = (each for each in self.cluster.store.since(0) if each.type == "ADDED" and each.key)
        return sum(each.key.name == name and each.key.resource == resource for each in changes if each.key)

    async def claim(self, id: str) -> Claim | None:
        return (await self.claims.known([id])).get(id)

    async def told(self, id: str) -> list[tuple[str, str | None]]:
        """Status and reason of each command about the entity but its creation, in order."""
        changes = [json.loads(each.value or b"")["data"].get("attributes") for each in await self._events(id)]
        return [(each["status"], each.get("reason")) for each in changes if each]

    async def command_ids(self, id: str) -> list[str]:
        """Of the same commands."""
        return [each.headers["id"] for each in await self._events(id) if b"attributes" in (each.value or b"")]

    async def _events(self, id: str) -> list[Record]:
        partition = partition_of(id, self.log.partitions)
        return [each for each in await self.log.read(EVENTS, partition, 0, 10_000) if each.key == id]


async def until(holds: Callable[[], Awaitable[bool] | bool], seconds: float = 60.0) -> None:
    """Wait for it; a test that waits in vain says where."""
    async with asyncio.timeout(seconds):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.005)


def place_of(entity: DyffEntity) -> tuple[Resource, str]:
    kind = entity.dump()["kind"]
    return KUBE[kind], resource_name(kind, entity.id)


def _creation(entity: DyffEntity) -> Message:
    command = CreateEntity.model_validate({"data": entity.dump()})
    headers = {"id": f"create-{entity.id}", "source": "api", "time": command_time(entity.creationTime)}
    return Message(EVENTS, entity.id, command.dump_json(), headers)


def _condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": "2026-01-01T00:05:00Z"}
