"""The edge to Kubernetes: one look at one entity makes or deletes its resource, and lets go of what it held.

Every look begins with the claim as it is now, so that looks may come late, twice or in any order; a keyed queue keeps
two of them from meeting. A look that raises ApiError or NotYet is repeated.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from steelyard.accounts.database import Claim
from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerTimeout,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from steelyard.kube.resource import PODS
from steelyard.schema.bounds import MESSAGE_LENGTH, cut
from steelyard.schema.entities import entity_of
from steelyard.schema.names import namespace_of, resource_name
from steelyard.schema.status import TERMINAL, failure_status
from steelyard.services.orchestrator.cache import ResourceCache, finished
from steelyard.services.orchestrator.desired import wanted
from steelyard.services.orchestrator.manifest import ENTITY, KUBE, Unresolvable, manifest
from steelyard.services.orchestrator.namespaces import STORAGE_SECRET, Namespaces
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.services.status_commands import Status
from steelyard.types import Json

_log = logging.getLogger(__name__)

_INVALID = frozenset({400, 413, 422})
"""Answers that a repeat does not change: what was sent cannot be read, is too large, or breaks a rule of its kind."""
_BUSY = (Conflict, NotFound, ServerTimeout, TooManyRequests, Unauthorized, Unreachable)
"""Answers about the server and about the moment, not about what was sent."""
POD_ENTITY = "steelyard/entity"
"""Label that the operator puts on every Pod of an entity's workflow."""


class NotYet(Exception):
    """Something has to happen first; the look is repeated."""


@dataclass(frozen=True)
class Known:
    """What a look asks and tells besides Kubernetes.

    `claim` is the entity's newest claim, `newest` whether the log has nothing newer of it, `say` publishes its status,
    `release` lets go of what it held, `pause` is for how many seconds what has gone is not to be made again.
    """

    claim: Callable[[str], Awaitable[Claim | None]]
    newest: Callable[[Claim], Awaitable[bool]]
    say: Callable[[Claim, Status], Awaitable[None]]
    release: Callable[[str], Awaitable[None]]
    pause: Callable[[str], float]


class Edge:
    """Keeps the resources in Kubernetes as the claims want them."""

    def __init__(
        self, cluster: Cluster, cache: ResourceCache, known: Known, settings: OrchestratorSettings
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._known = known
        self._settings = settings
        credentials = {name: value.get_secret_value() for name, value in settings.storage_credentials.items()}
        self._secret = STORAGE_SECRET if credentials else None
        self._namespaces = Namespaces(cluster, credentials)

    async def look(self, id: str, now: datetime) -> float | None:
        """Do what is due for the entity; seconds to the next look, where one is known. Raises ApiError, NotYet."""
        claim = await self._known.claim(id)
        want = wanted(claim, now, self._settings.keep_seconds)
        if want.word == "present" and claim:
            if not self._seen(claim) and (pause := self._known.pause(id)):
                return pause
            await self._ensure(claim)
        elif want.word == "absent":
            await self._remove(id, claim)
        if claim and claim.status in TERMINAL and claim.admitted_at and not claim.released_at:
            if not await self._quiet(claim):
                return self._settings.release_seconds
            await self._known.release(id)
        if want.until and self._cache.of(id):
            return max(0.0, (want.until - now).total_seconds())
        return None

    # ---- making

    async def _ensure(self, claim: Claim) -> None:
        """The resource is there, and its entity is told to be Admitted; a fault that lasts is told instead."""
        try:
            if not self._seen(claim):
                await self._create(claim)
        except Unresolvable as fault:
            await self._fail(claim, fault.reason, fault.message)
            return
        if claim.status == "Created":
            await self._known.say(claim, Status("Admitted"))

    def _seen(self, claim: Claim) -> bool:
        """Whether the cache shows it, as what it should be."""
        place = (namespace_of(claim.account), resource_name(claim.kind, claim.id))
        return any(
            (each["metadata"]["namespace"], each["metadata"]["name"]) == place
            and not each["metadata"]["deletionTimestamp"]
            for each in self._cache.of(claim.id)
        )

    async def _create(self, claim: Claim) -> None:
        if not await self._known.newest(claim):
            raise NotYet(f"{claim.kind} {claim.id}: the log knows more than the claims")  # it may have ended
        resource = manifest(entity_of(claim.json), self._secret)
        try:
            await self._namespaces.ensure(claim.account)
            await self._put(claim, resource)
        except _BUSY:
            raise  # it says nothing about the entity
        except ApiError as refusal:
            await self._say_refused(claim, refusal)
            raise

    async def _put(self, claim: Claim, resource: Json) -> None:
        try:
            await self._cluster.create(KUBE[claim.kind], resource)
        except AlreadyExists:
            await self._check_ours(claim)
        except NotFound:
            self._namespaces.forget(claim.account)  # somebody has deleted it
            raise
        except ApiError as refusal:
            if refusal.status not in _INVALID:
                raise
            raise Unresolvable("BadRequest", refusal.message) from refusal

    async def _say_refused(self, claim: Claim, refusal: ApiError) -> None:
        """A quota, a webhook or a missing right: it is tried again, and the entity says what it waits for."""
        said = Status(
            "Created", "FailedCreate", cut(f"Kubernetes does not take it: {refusal.message}", MESSAGE_LENGTH)
        )
        if claim.status == "Created" and (claim.reason, claim.message) != (said.reason, said.message):
            await self._known.say(claim, said)

    async def _check_ours(self, claim: Claim) -> None:
        """What is there by that name is this entity's; or going, and then it is made again; or somebody else's."""
        found = await self._get(claim)
        metadata = found["metadata"]
        if not _is_of(found, claim):
            where = f"{metadata['namespace']}/{metadata['name']}"
            raise Unresolvable("NameConflict", f"{where} is there already and is not this entity's")
        if metadata.get("deletionTimestamp"):
            raise NotYet(f"{metadata['name']} is being deleted")

    async def _fail(self, claim: Claim, reason: str, message: str) -> None:
        """Before it is Admitted it may fail by our word; afterwards only its resource could say so."""
        if claim.status != "Created":
            raise NotYet(f"{claim.kind} {claim.id} cannot be made again: {reason}: {message}")
        await self._known.say(claim, Status(failure_status(claim.kind), reason, message))

    async def _get(self, claim: Claim) -> Json:
        name = resource_name(claim.kind, claim.id)
        return await self._cluster.get(KUBE[claim.kind], name, namespace_of(claim.account))

    async def _own(self, claim: Claim) -> Json | None:
        """The entity's resource as the API has it now."""
        try:
            found = await self._get(claim)
        except NotFound:
            return None
        return found if _is_of(found, claim) else None

    # ---- unmaking

    async def _remove(self, id: str, claim: Claim | None) -> None:
        """Delete every resource of the entity: those that the cache shows, and one made a moment ago."""
        found = {each["metadata"]["uid"]: each for each in self._cache.of(id)}
        holds = claim is not None and claim.admitted_at is not None and claim.released_at is None
        if claim and holds and (made := await self._own(claim)):
            found[made["metadata"]["uid"]] = made
        for uid, each in found.items():
            if not each["metadata"].get("deletionTimestamp"):
                await self._delete(each, uid)

    async def _delete(self, obj: Json, uid: str) -> None:
        metadata = obj["metadata"]
        try:
            await self._cluster.delete(KUBE[obj["kind"]], metadata["name"], metadata["namespace"], uid=uid)
        except (NotFound, Conflict):
            return  # gone meanwhile, or another one by now, which is looked at for itself
        _log.info("deleted %s %s", obj["kind"], metadata["name"])

    async def _quiet(self, claim: Claim) -> bool:
        """Whether nothing of the entity's workflow runs or is about to."""
        resource = await self._own(claim)
        if resource and not finished(resource):
            return False
        pods = await self._cluster.list(
            PODS, namespace_of(claim.account), label_selector=f"{POD_ENTITY}={claim.id}"
        )
        return all((each.get("status") or {}).get("phase") in {"Succeeded", "Failed"} for each in pods.items)


def _is_of(resource: Json, claim: Claim) -> bool:
    return bool((resource["metadata"].get("labels") or {}).get(ENTITY) == claim.id)
