"""The informer: statuses that resources show become commands about their entities.

It has no memory: a command follows from the resource's level alone, and sending it again changes nothing. A resource
that is deleted says nothing: what becomes of its entity is for the orchestrator to say. The platform's process or
`steelyard service informer` starts `run_informer`; of several copies one works.
"""

import asyncio
import logging
from contextlib import suppress

import orjson
from prometheus_client import Gauge

from steelyard.broker.log import STATE, Log, Message
from steelyard.broker.quarantine.dead_letters import describe_error
from steelyard.broker.quarantine.marks import Aside
from steelyard.services.informer.runner_logs import RunnerLogs
from steelyard.services.informer.status import Observation, entity_id, make_command, read_status, slim
from steelyard.services.leadership import Leadership, ensure_leader, lead_until
from steelyard.services.orchestrator.manifest import ENTITY
from steelyard_common.errors import is_engine_failure
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.informer import Informer
from steelyard_kube.leader import Candidate, LeaderElector
from steelyard_kube.resource import DYFF
from steelyard_schema.names import account_namespace

_log = logging.getLogger(__name__)

LEASE = "steelyard-informer"
CONSUMER = "informer"
"""Name under which resources that cannot be read are put in quarantine."""
BATCH = 500
RETRY_SECONDS = 30.0


async def run_informer(
    log: Log,
    cluster: Cluster,
    *,
    candidate: Candidate,
    stop: asyncio.Event,
    namespace: str = "default",
    leading: Gauge | None = None,
    runner_logs: RunnerLogs | None = None,
) -> None:
    """Publish what the resources of all accounts show, until `stop`; `namespace` is the lease's.

    `runner_logs` keeps the logs of runners, which only the leader does.
    """

    def elector() -> LeaderElector:
        return LeaderElector(cluster, candidate, namespace=namespace, name=LEASE)

    async def lead(leadership: Leadership) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_Follower(log, cluster, leadership).work())
            if runner_logs is not None:
                tasks.create_task(runner_logs.work())

    await lead_until(stop, elector, lead, leading)


class _Follower:
    """Follows the resources, and publishes the statuses that have changed since they were published last."""

    def __init__(self, log: Log, cluster: Cluster, leadership: Leadership) -> None:
        self._log = log
        self._leadership = leadership
        self._changed = asyncio.Event()
        self._updates: dict[str, Json] = {}  # resources to report, by uid
        self._published: dict[str, Observation] = {}  # by uid; it only spares repeats, nothing depends on it
        self._failed: dict[str, Json] = {}  # resources that could not be read, by uid
        self._informers = [
            Informer(cluster, kind, label_selector=ENTITY, transform=slim, on_change=self._on_change)
            for kind in DYFF
        ]

    async def work(self) -> None:
        quarantine = await Aside.open(self._log, CONSUMER)
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())
            while True:
                await self._wait(quarantine)
                await self._publish(quarantine)

    async def _wait(self, quarantine: Aside) -> None:
        """Wait for a change. Resources that failed are tried again from time to time, until an administrator drops
        them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS if self._failed else None):
                await self._changed.wait()
            self._changed.clear()
            return
        await quarantine.read_releases()
        held = {
            uid: resource for uid, resource in self._failed.items() if entity_id(resource) in quarantine.keys
        }
        self._updates, self._failed = held | self._updates, {}

    def _on_change(self, old: Json | None, new: Json | None) -> None:
        if old and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._published.pop(old["metadata"]["uid"], None)
            self._failed.pop(old["metadata"]["uid"], None)
        if new:
            self._updates[new["metadata"]["uid"]] = new
            self._changed.set()

    async def _publish(self, quarantine: Aside) -> None:
        updates, self._updates = self._updates, {}
        resources = list(updates.items())
        for start in range(0, len(resources), BATCH):
            commands: list[tuple[str, Observation, Message]] = []
            await ensure_leader(self._leadership)
            for uid, resource in resources[start : start + BATCH]:
                if command := await self._command(uid, resource, quarantine):
                    commands.append(command)
            if commands:
                await self._log.publish([message for _, _, message in commands])
            self._published.update((uid, observed) for uid, observed, _ in commands)
            # Most of many thousands lead to no command, so that nothing above waits: let other tasks have their turn.
            await asyncio.sleep(0)

    async def _command(
        self, uid: str, resource: Json, quarantine: Aside
    ) -> tuple[str, Observation, Message] | None:
        """Return the command for what a resource shows now. A resource that cannot be read is put aside alone."""
        id = entity_id(resource)
        if id is None:
            return None
        try:
            observed = read_status(resource)
            is_new = observed is not None and observed != self._published.get(uid)
            message = make_command(resource, observed) if is_new and observed else None
        except Exception as error:
            if is_engine_failure(error):
                raise
            if not await self._speaks_for(id, resource):
                _log.warning(
                    "%s/%s: cannot be read, and is not the resource of %s: %s",
                    resource["metadata"]["namespace"],
                    resource["metadata"]["name"],
                    id,
                    describe_error(error),
                )
                return None
            self._failed[uid] = resource
            await quarantine.put(id, describe_error(error))
            return None
        self._failed.pop(uid, None)
        if id in quarantine.keys and await self._speaks_for(id, resource):
            await quarantine.clear(id)
        return (uid, observed, message) if observed and message else None

    async def _speaks_for(self, id: str, resource: Json) -> bool:
        """Return whether the resource is in the namespace of its entity's account, as the aggregator compares it.

        Who may write in another namespace can give a resource there the label and the name of any entity.
        """
        latest = await self._log.latest(STATE, id)
        if latest is None or not latest.value:
            return False
        account = str(orjson.loads(latest.value)["account"])
        return bool(resource["metadata"]["namespace"] == account_namespace(account))
