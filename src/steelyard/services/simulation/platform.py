"""A platform in memory: log, claims and cluster, and the services that run on them. For tests of the services."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from steelyard.accounts.claims import Claim, Claims
from steelyard.accounts.open import open_accounts_database
from steelyard.accounts.quotas import GLOBAL, Rates, Shortage
from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import EVENTS, STATE, Log, Message, Record
from steelyard.broker.partition import find_partition
from steelyard.services.aggregator.aggregator import run_aggregator
from steelyard.services.informer.status_informer import run_informer
from steelyard.services.orchestrator.admission import Limits
from steelyard.services.orchestrator.manifest import KUBE
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.orchestrator import run_orchestrator
from steelyard.services.orchestrator.rules import AdmissionRules
from steelyard.services.orchestrator.secrets import SecretValues
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.services.simulation.commands import restore
from steelyard.services.simulation.entities import START
from steelyard.services.status_commands import Status, status_command
from steelyard_common.types import Json
from steelyard_kube.leader import Candidate, SystemClock, Timing
from steelyard_kube.memory import MemoryCluster
from steelyard_kube.resource import PODS, Resource
from steelyard_schema.base import DyffEntity
from steelyard_schema.commands import CreateEntity, ForgetEntity, command_time
from steelyard_schema.entities import AnyEntity, parse_entity
from steelyard_schema.names import account_namespace, resource_name
from steelyard_schema.status import Source

QUICK = OrchestratorSettings(
    reconcile_seconds=0.2, release_seconds=0.02, recreate_seconds=0.02, retell_seconds=0.05, workers=2
)
_IDS = count()
"""Ids of commands; all harnesses share them, since several may share one log."""
TIMING = Timing(duration=1, deadline=0.6, retry=0.05)


class _HarnessClock(SystemClock):
    """The machine's clock for leases; the harness's time for written times."""

    def __init__(self, harness: "PlatformHarness") -> None:
        self._harness = harness

    def now(self) -> datetime:
        return self._harness.now


@dataclass
class Slots:
    """Limits of one number of slots for all accounts."""

    limit: int = 100

    def shortages(self, claim: Claim, held: Sized) -> list[Shortage]:
        if len(held) < self.limit:
            return []
        return [Shortage(GLOBAL, "slots", f"Global quota exceeded: slots: {len(held)}/{self.limit}")]


@dataclass
class PlatformHarness:
    """A platform that outlives its orchestrators: tests change it, and read what the services made of it."""

    claims: Claims
    limits: Limits
    log: Log = field(default_factory=MemoryLog)
    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    settings: OrchestratorSettings = QUICK
    now: datetime = START + timedelta(minutes=1)
    metrics: OrchestratorMetrics = field(default_factory=OrchestratorMetrics)
    rules: AdmissionRules | None = None
    """Rules of admission in place of `limits`."""
    secrets: SecretValues | None = None
    """Reader of the accounts' secrets."""
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def new_id(self) -> str:
        """Return the id of a new command."""
        return f"command-{next(_IDS)}"

    # ---- services

    def start(self, identity: str = "one") -> asyncio.Task[None]:
        """Run an orchestrator until it is cancelled or dies."""
        rules = self.rules or AdmissionRules(self.limits, Rates(), lambda entity: {"slots": "1"})
        return self._run(
            run_orchestrator(
                self.log,
                self.claims,
                self.cluster,
                self.settings,
                rules,
                candidate=Candidate(identity, _HarnessClock(self), timing=TIMING),
                new_id=self.new_id,
                stop=asyncio.Event(),
                metrics=self.metrics,
                secrets=self.secrets,
            )
        )

    def aggregate(self) -> None:
        """Run an aggregator."""
        self._run(run_aggregator(self.log, stop=asyncio.Event()))

    def inform(self, identity: str = "one") -> asyncio.Task[None]:
        """Run an informer until it is cancelled."""
        candidate = Candidate(identity, SystemClock(), timing=TIMING)
        return self._run(run_informer(self.log, self.cluster, candidate=candidate, stop=asyncio.Event()))

    def _run(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.append(task)
        return task

    async def kill(self, task: asyncio.Task[None]) -> None:
        """End a service at once; what it wrote stays."""
        task.cancel()
        with suppress(BaseException):
            await task

    async def close(self) -> None:
        """End all services."""
        for task in self._tasks:
            await self.kill(task)

    # ---- changes

    async def create(self, *entities: DyffEntity) -> None:
        """Publish CreateEntity commands, as the API does."""
        await self.log.publish([_creation(entity) for entity in entities])

    async def update_status(
        self, entity: DyffEntity, status: str, reason: str | None = None, source: Source = "api"
    ) -> None:
        """Publish an UpdateEntityStatus command."""
        patch = Status(status, reason)
        kind = entity.dump()["kind"]
        command = status_command(entity.id, kind, patch, source=source, time=self.now, command=self.new_id())
        await self.log.publish([command])

    async def forget(self, entity: DyffEntity) -> None:
        """Publish a ForgetEntity command, as the reaper does."""
        command = ForgetEntity.model_validate({"data": {"id": entity.id, "kind": entity.dump()["kind"]}})
        headers = {"id": self.new_id(), "source": "reaper", "time": command_time(self.now)}
        await self.log.publish([Message(EVENTS, entity.id, command.dump_json(), headers)])

    async def restore(self, entity: DyffEntity) -> None:
        """Restore an entity from a backup, as an administrator does."""
        headers = {"id": self.new_id(), "source": "api", "time": command_time(self.now)}
        await self.log.publish([Message(EVENTS, entity.id, restore(entity).dump_json(), headers)])

    def finish(self, entity: DyffEntity, condition: str = "Complete") -> None:
        """Let the resource end, with the conditions that the operator would write."""
        self._set(entity, [_condition(condition), _condition("Finished")])

    def set_condition(self, entity: DyffEntity, condition: str, reason: str, message: str = "") -> None:
        """Let one condition of the resource hold, as the operator would write it."""
        self._set(entity, [{**_condition(condition), "reason": reason, "message": message}])

    def _set(self, entity: DyffEntity, conditions: list[Json]) -> None:
        resource, name = find_place(entity)
        status = {"conditions": conditions}
        self.cluster.store.set_status(resource, name, account_namespace(entity.account), status)

    def pod(self, entity: DyffEntity, phase: str) -> None:
        """Put a Pod of the entity's workflow into the cluster."""
        metadata = {
            "name": f"pod-of-{entity.id}",
            "namespace": account_namespace(entity.account),
            "labels": {"steelyard/entity": entity.id},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": phase}}
        self.cluster.store.put(pod, PODS)

    def remove(self, entity: DyffEntity) -> None:
        """Delete the entity's resource, as a person does by hand."""
        resource, name = find_place(entity)
        self.cluster.store.remove(resource, name, account_namespace(entity.account))

    # ---- observations

    async def entity(self, id: str) -> AnyEntity:
        record = await self.log.latest(STATE, id)
        assert record is not None
        assert record.value
        return parse_entity(record.value)

    async def status(self, id: str) -> str:
        """Return the entity's status; empty before the entity exists."""
        return (await self.entity(id)).status if await self.log.latest(STATE, id) else ""

    async def message(self, id: str) -> str:
        return (await self.entity(id)).message or "" if await self.log.latest(STATE, id) else ""

    def resource(self, entity: DyffEntity) -> Json | None:
        resource, name = find_place(entity)
        return self.cluster.store.find(resource, name, account_namespace(entity.account))

    def creations(self, entity: DyffEntity) -> int:
        """Return how often the entity's resource was created."""
        return self._count("ADDED", entity)

    def deletions(self, entity: DyffEntity) -> int:
        """Return how often the entity's resource was deleted."""
        return self._count("DELETED", entity)

    def _count(self, event_type: str, entity: DyffEntity) -> int:
        resource, name = find_place(entity)
        keys = [event.key for event in self.cluster.store.since(0) if event.type == event_type]
        return sum(key is not None and key.name == name and key.resource == resource for key in keys)

    async def claim(self, id: str) -> Claim | None:
        return (await self.claims.find_claims([id])).get(id)

    async def reports(self, id: str) -> list[tuple[str, str | None]]:
        """Return status and reason of each command about the entity, in order, except its creation."""
        patches = [
            json.loads(record.value or b"")["data"].get("attributes") for record in await self._events(id)
        ]
        return [(patch["status"], patch.get("reason")) for patch in patches if patch]

    async def command_ids(self, id: str) -> list[str]:
        """Return the ids of the same commands."""
        events = await self._events(id)
        return [record.headers["id"] for record in events if b"attributes" in (record.value or b"")]

    async def _events(self, id: str) -> list[Record]:
        partition = find_partition(id, self.log.partitions)
        return [record for record in await self.log.read(EVENTS, partition, 0, 10_000) if record.key == id]


@asynccontextmanager
async def open_harness(limits: Limits, **parts: Any) -> AsyncIterator[PlatformHarness]:
    """Give a harness with an accounts database in memory and an aggregator; nothing of it runs after the block."""
    accounts_database = await open_accounts_database("memory:")
    harness = PlatformHarness(accounts_database.claims, limits, **parts)
    harness.aggregate()
    try:
        yield harness
    finally:
        await harness.close()
        await accounts_database.close()


async def has_status(harness: PlatformHarness, id: str, status: str) -> None:
    """Wait until an entity has a status."""

    async def holds() -> bool:
        return await harness.status(id) == status

    await until(holds)


async def wait_for_admission(harness: PlatformHarness, entity: DyffEntity, *others: DyffEntity) -> None:
    """Create entities, and wait until the first one's resource is there and says Admitted."""
    await harness.create(entity, *others)
    await until(lambda: harness.resource(entity) is not None)
    await has_status(harness, entity.id, "Admitted")


async def wait_for_release(harness: PlatformHarness, id: str) -> None:
    """Wait until an entity holds nothing of the quotas any more."""

    async def holds() -> bool:
        claim = await harness.claim(id)
        return claim is not None and claim.released_at is not None

    await until(holds)


async def until(holds: Callable[[], Awaitable[bool] | bool], seconds: float = 60.0) -> None:
    """Wait until a condition holds; a test that waits in vain fails after `seconds`."""
    async with asyncio.timeout(seconds):
        while True:
            result = holds()
            if result if isinstance(result, bool) else await result:
                return
            await asyncio.sleep(0.005)


def find_place(entity: DyffEntity) -> tuple[Resource, str]:
    kind = entity.dump()["kind"]
    return KUBE[kind], resource_name(kind, entity.id)


def _creation(entity: DyffEntity) -> Message:
    command = CreateEntity.model_validate({"data": entity.dump()})
    headers = {"id": f"create-{entity.id}", "source": "api", "time": command_time(entity.creationTime)}
    return Message(EVENTS, entity.id, command.dump_json(), headers)


def _condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": "2026-01-01T00:05:00Z"}
