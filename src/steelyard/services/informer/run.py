"""The informer: what a resource's conditions say becomes a status command about its entity.

It has no memory: the command follows from the resource's level alone, and saying it again changes nothing. A
resource that is deleted says nothing: its entity's fate is the orchestrator's matter. `run_informer` is started
by the platform's process or by `steelyard service informer`; of several copies one works.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from steelyard.broker.log import Log, Message
from steelyard.broker.quarantine.dead_letters import described
from steelyard.broker.quarantine.marks import Aside
from steelyard.errors import is_engine_failure
from steelyard.kube.cluster import Cluster
from steelyard.kube.informer import Informer
from steelyard.kube.leader import Candidate, LeaderElector
from steelyard.kube.resource import DYFF
from steelyard.schema.names import resource_name
from steelyard.schema.status import failure_status
from steelyard.services.leadership import Leading, lead_until, surely
from steelyard.services.orchestrator.manifest import ENTITY
from steelyard.services.status_commands import Status, command_id, status_command
from steelyard.types import Json

_log = logging.getLogger(__name__)

LEASE = "steelyard-informer"
CONSUMER = "informer"
"""Under this name it puts aside what it cannot read."""
BATCH = 500
RETRY_SECONDS = 30.0

_PROGRESS: dict[str, dict[str, str]] = {
    "Evaluation": {
        "SessionStarting": "Incomplete",
        "ClientRunning": "Incomplete",
        "Unschedulable": "Incomplete",
        "Unverified": "Unverified",
        "Restarted": "Restarted",
    },
    "InferenceSession": {"Starting": "Starting"},
}
"""Reasons of the condition Progressing that become the entity's reason; others are for readers of the resource."""


@dataclass(frozen=True)
class Observed:
    """What a resource says of its entity, and since when it does."""

    said: Status
    time: datetime


def status_of(resource: Json) -> Observed | None:
    """What the resource's conditions mean for its entity; None while they say nothing yet."""
    holding = {
        condition["type"]: condition
        for condition in _conditions(resource)
        if condition.get("status") == "True"
    }
    for kind in ("Failed", "Expired", "Complete", "Ready", "Progressing"):
        if kind in holding:
            said = _said(resource["kind"], kind, holding[kind])
            return Observed(said, datetime.fromisoformat(holding[kind]["lastTransitionTime"]))
    return None


def _conditions(resource: Json) -> list[Json]:
    """A resource may hold what its schema would refuse, if it is older than the schema."""
    status = resource.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return (
        [condition for condition in conditions if isinstance(condition, dict)]
        if isinstance(conditions, list)
        else []
    )


def _said(kind: str, condition: str, content: Json) -> Status:
    reason, message = content.get("reason") or None, content.get("message") or None
    match condition:
        case "Failed":
            return Status(failure_status(kind), reason, message)
        case "Expired":
            return Status("Terminated", "SessionExpired", message)
        case "Complete":
            return Status("Complete")
        case "Ready":
            return Status("Admitted" if kind == "InferenceSession" else "Ready")
        case _:
            return Status("Admitted", _PROGRESS.get(kind, {}).get(reason or ""), message)


def entity_of(resource: Json) -> str | None:
    """The id of the entity whose resource this is: label and name agree on it."""
    metadata = resource["metadata"]
    id: str | None = (metadata.get("labels") or {}).get(ENTITY)
    return id if id and metadata["name"] == resource_name(resource["kind"], id) else None


def slim(resource: Json) -> Json:
    """What `command_of` reads; tens of thousands of resources are kept."""
    metadata = resource["metadata"]
    kept = {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")}
    kept["labels"] = {key: value for key, value in (metadata.get("labels") or {}).items() if key == ENTITY}
    conditions = [condition for condition in _conditions(resource) if condition.get("status") == "True"]
    return {"kind": resource["kind"], "metadata": kept, "status": {"conditions": conditions}}


def command_of(resource: Json, observed: Observed, command: str | None = None) -> Message:
    """Command for what a resource says. Its id, if none is given, comes from the version: two informers count once."""
    id, metadata = entity_of(resource), resource["metadata"]
    assert id
    command = command or command_id("informer", metadata["uid"], metadata["resourceVersion"])
    return status_command(
        id, resource["kind"], observed.said, source="informer", time=observed.time, command=command
    )


async def run_informer(
    log: Log,
    cluster: Cluster,
    *,
    candidate: Candidate,
    stop: asyncio.Event,
    namespace: str = "default",
) -> None:
    """Tell the log what the resources of all accounts say, until `stop`; `namespace` is the lease's."""

    def elector() -> LeaderElector:
        return LeaderElector(cluster, candidate, namespace=namespace, name=LEASE)

    await lead_until(stop, elector, lambda leading: _Teller(log, cluster, leading).work())


class _Teller:
    """Follows the resources, and says what has changed since it last said it."""

    def __init__(self, log: Log, cluster: Cluster, leading: Leading) -> None:
        self._log = log
        self._leading = leading
        self._changed = asyncio.Event()
        self._news: dict[str, Json] = {}  # by uid
        self._told: dict[str, Observed] = {}  # by uid; spares repeats, nothing depends on it
        self._aside: Aside | None = None
        self._failed: dict[str, Json] = {}  # by uid: of which nothing could be said
        self._informers = [
            Informer(cluster, each, label_selector=ENTITY, transform=slim, on_change=self._see)
            for each in DYFF
        ]

    async def work(self) -> None:
        self._aside = await Aside.open(self._log, CONSUMER)
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())
            while True:
                await self._wait(self._aside)
                await self._tell(self._aside)

    async def _wait(self, aside: Aside) -> None:
        """Wait for news; what failed is tried again from time to time, until somebody drops it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS if self._failed else None):
                await self._changed.wait()
            self._changed.clear()
            return
        await aside.released()
        held = {uid: each for uid, each in self._failed.items() if entity_of(each) in aside.keys}
        self._news, self._failed = held | self._news, {}

    def _see(self, old: Json | None, new: Json | None) -> None:
        if old and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._told.pop(old["metadata"]["uid"], None)
            self._failed.pop(old["metadata"]["uid"], None)
        if new:
            self._news[new["metadata"]["uid"]] = new
            self._changed.set()

    async def _tell(self, aside: Aside) -> None:
        news, self._news = self._news, {}
        resources = list(news.items())
        for start in range(0, len(resources), BATCH):
            batch = resources[start : start + BATCH]
            await surely(self._leading)
            fresh = [each for uid, resource in batch if (each := await self._fresh(uid, resource, aside))]
            if fresh:
                await self._log.publish([message for _, _, message in fresh])
            self._told.update((uid, observed) for uid, observed, _ in fresh)
            await asyncio.sleep(0)  # of many thousands, most say nothing, and nothing is waited for

    async def _fresh(self, uid: str, resource: Json, aside: Aside) -> tuple[str, Observed, Message] | None:
        """Command for what a resource says anew. A resource that cannot be read is put aside alone."""
        id = entity_of(resource)
        if id is None:
            return None
        try:
            observed = status_of(resource)
            fresh = observed is not None and observed != self._told.get(uid)
            message = command_of(resource, observed) if fresh and observed else None
        except Exception as error:
            if is_engine_failure(error):
                raise
            self._failed[uid] = resource
            await aside.put(id, described(error))
            return None
        self._failed.pop(uid, None)
        await aside.clear(id)
        return (uid, observed, message) if observed and message else None
