"""The edge to Kubernetes: one reconciliation makes or deletes an entity's resource, and releases what it held.

It begins with the newest claim, so that it may come late, twice or in any order; a work queue keeps two of one entity
from running at once. A reconciliation that raises ApiError or NotYet is tried again.
"""

import logging
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Protocol

from steelyard.accounts.claims import Claim
from steelyard.services.orchestrator.cache import ResourceCache, is_finished
from steelyard.services.orchestrator.desired import decide_resource, is_over
from steelyard.services.orchestrator.manifest import CUSTOM, ENTITY, KUBE, Unresolvable, manifest
from steelyard.services.orchestrator.namespaces import Namespaces
from steelyard.services.orchestrator.secrets import (
    WAITING,
    ForeignSecret,
    NoSecrets,
    SecretLacking,
    SecretValues,
    WorkflowSecrets,
    list_needed,
)
from steelyard.services.orchestrator.settings import STORAGE_SECRET, OrchestratorSettings
from steelyard.services.status_commands import Status
from steelyard.telemetry.tracing import span
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerTimeout,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from steelyard_kube.objects import read_labels
from steelyard_kube.pods import is_terminal
from steelyard_kube.refusals import ToldRefusals
from steelyard_kube.resource import PODS
from steelyard_schema.bounds import MESSAGE_LENGTH, cut
from steelyard_schema.entities import parse_entity
from steelyard_schema.names import account_namespace, resource_name
from steelyard_schema.status import NEVER_RAN, TERMINAL

_log = logging.getLogger(__name__)

_INVALID = frozenset({400, 413, 422})
"""HTTP statuses that a repeat does not change: the request is unreadable, too large, or breaks a rule of its kind."""
_TRANSIENT = (Conflict, NotFound, ServerTimeout, TooManyRequests, Unauthorized, Unreachable)
"""Errors of the server or of the moment. They say nothing about the content of the request."""
POD_ENTITY = "steelyard/entity"
"""Label that the operator puts on every Pod of an entity's workflow."""


class NotYet(Exception):
    """Something has to happen first; the reconciliation is tried again."""


class Entities(Protocol):
    """The platform as a reconciliation needs it, besides Kubernetes. The leader provides it."""

    async def claim(self, id: str) -> Claim | None:
        """Return the entity's newest claim."""
        ...

    async def state_headers(self, claim: Claim) -> Mapping[str, str] | None:
        """Return the headers of the entity's newest state; None if it is newer than the claim, or there is none."""
        ...

    async def report(self, claim: Claim, status: Status) -> None:
        """Publish a new status of the entity."""
        ...

    async def release(self, id: str) -> None:
        """Release what the entity holds of the quotas."""
        ...

    def recreate_pause(self, id: str) -> float:
        """Return the seconds for which a resource that has gone must not be made again."""
        ...

    async def ensure_leader(self) -> None:
        """Return while this process leads."""
        ...


class Edge:
    """Keeps the resources in Kubernetes as the claims want them."""

    def __init__(
        self,
        cluster: Cluster,
        cache: ResourceCache,
        entities: Entities,
        settings: OrchestratorSettings,
        secrets: SecretValues | None = None,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._entities = entities
        self._settings = settings
        self._secret = STORAGE_SECRET if settings.storage_credentials else None
        self._namespaces = Namespaces(cluster, settings, entities.ensure_leader)
        self._secrets = WorkflowSecrets(cluster, secrets or NoSecrets())
        self._refusals: ToldRefusals[str] = ToldRefusals()
        self._noted: dict[str, list[Json]] = {}
        self._lists_secrets = True

    async def reconcile(self, id: str, now: datetime) -> float | None:
        """Take the due steps for the entity; return the seconds after which to requeue it. Raises ApiError, NotYet."""
        # Taken before the claim is read: what a restored entity gets afterwards is not among them.
        noted = self._noted.pop(id, [])
        claim = await self._entities.claim(id)
        if claim is None or claim.status != "Created":
            self._refusals.forget(id)
        desired = decide_resource(claim, now, self._settings.keep_seconds)
        if desired.presence == "present" and claim:
            # A resource that has just gone may have finished: its workflow must not run again before the log has said
            # so.
            if not self._is_cached(claim) and (pause := self._entities.recreate_pause(id)):
                return pause
            await self._ensure(claim, now)
        elif desired.presence == "absent":
            await self._remove(id, claim)
        if claim and claim.status in TERMINAL and claim.admitted_at and not claim.released_at:
            secrets = await self._secrets.existing(claim)
            # The quota is free for others only when no Pod of the workflow uses the machine any more.
            if not await self._has_stopped(claim) or (secrets and await self._goes_on(id)):
                return self._settings.release_seconds
            await self._secrets.delete(secrets)
            await self._entities.release(id)
        if is_over(claim):
            await self._secrets.delete(noted)
        if desired.until and self._cache.find_resources(id):
            return max(0.0, (desired.until - now).total_seconds())
        return None

    async def note_secrets(self) -> Collection[str]:
        """Note the Secrets of workflows in the next namespaces of accounts; return the ids of their entities.

        The next reconciliation of an entity whose workflow is over deletes them.
        """
        self._noted = {}
        try:
            for namespace in await self._namespaces.next_round():
                self._noted |= await self._secrets.by_entity(namespace)
            self._lists_secrets = True
        except ApiError as error:
            # Once per series: an orchestrator without the right would say so every minute.
            level = logging.WARNING if self._lists_secrets else logging.DEBUG
            _log.log(level, "Secrets that are left over are not searched for: %s", error)
            self._lists_secrets = False
        return self._noted.keys()

    async def _goes_on(self, id: str) -> bool:
        """Return whether the entity was restored and runs since its Secrets were read: another leader uses them."""
        claim = await self._entities.claim(id)
        return claim is not None and claim.status not in TERMINAL

    # ---- making

    async def _ensure(self, claim: Claim, now: datetime) -> None:
        """Make the resource if it is missing, then report Admitted; report a fault that lasts instead."""
        try:
            if not self._is_cached(claim):
                await self._create(claim, now)
            elif claim.status == "Created" and list_needed(claim):
                # An earlier attempt died before it could report, and perhaps before the Secrets had their owner.
                await self._secrets.set_owner(claim)
        except Unresolvable as fault:
            # The orchestrator may fail an entity only before it is Admitted; from then on its resource says how it
            # ends (the transition table has no other way).
            if claim.status != "Created":
                text = f"{claim.kind} {claim.id} cannot be made again: {fault.reason}: {fault.message}"
                raise NotYet(text) from fault
            status = Status(NEVER_RAN, fault.reason, fault.message)
            await self._entities.report(claim, status)
            return
        if claim.status == "Created":
            await self._entities.report(claim, Status("Admitted"))

    def _is_cached(self, claim: Claim) -> bool:
        """Return whether the cache shows the resource under its name, and not being deleted."""
        expected = (account_namespace(claim.account), resource_name(claim.kind, claim.id))
        return any(
            (resource["metadata"]["namespace"], resource["metadata"]["name"]) == expected
            and not resource["metadata"]["deletionTimestamp"]
            for resource in self._cache.find_resources(claim.id)
        )

    async def _create(self, claim: Claim, now: datetime) -> None:
        # The consumer may lag behind the log: the entity may have ended, and its workflow must not run again.
        headers = await self._entities.state_headers(claim)
        if headers is None:
            raise NotYet(f"{claim.kind} {claim.id}: the log knows more than the claims")
        # Made from the newest claim each time, not kept: what the orchestrator knows can be lost at any moment.
        trace = headers.get("traceparent")  # the span of the request that created the entity
        attributes = {"steelyard.entity.id": claim.id}
        try:
            with span(f"create {claim.kind}", trace, kind="producer", attributes=attributes) as opened:
                resource = manifest(parse_entity(claim.json), self._secret, opened.traceparent)
                await self._namespaces.ensure(claim.account)
                await self._secrets.make(claim)
                await self._put(claim, resource)
                if list_needed(claim):
                    await self._secrets.set_owner(claim)
        except SecretLacking as lack:
            if claim.status == "Created" and (claim.reason, claim.message) != (WAITING, str(lack)):
                await self._entities.report(claim, Status("Created", WAITING, str(lack)))
            raise NotYet(str(lack)) from lack
        except ForeignSecret as conflict:
            raise Unresolvable("NameConflict", str(conflict)) from conflict
        except NotFound as missing:
            # The namespace was deleted by a user, whichever of its objects was to be made.
            self._namespaces.forget(claim.account)
            # An answer that names no object is about the kind, which is not installed.
            if not (missing.details or {}).get("name"):
                await self._tell(claim, missing, now)
            raise
        except _TRANSIENT:
            raise
        except ApiError as refusal:
            await self._tell(claim, refusal, now)
            raise
        self._refusals.forget(claim.id)

    async def _tell(self, claim: Claim, refusal: ApiError, now: datetime) -> None:
        """Say that a quota, a webhook or a missing right of the cluster prevents the resource, which waits for now."""
        words = self._refusals.words(claim.id, "", refusal.message, now)
        message = cut(f"Kubernetes does not take it: {words}", MESSAGE_LENGTH)
        status = Status("Created", "FailedCreate", message)
        if claim.status == "Created" and (claim.reason, claim.message) != (status.reason, status.message):
            await self._entities.report(claim, status)

    async def _put(self, claim: Claim, resource: Json) -> None:
        try:
            await self._cluster.create(KUBE[claim.kind], resource)
        except AlreadyExists:
            # An earlier attempt made it and died before it could report, or another entity's resource has the name.
            await self._check_own(claim)
        except ApiError as refusal:
            # Only what no repeat can mend fails the entity; a quota or a webhook may change its mind.
            if refusal.status not in _INVALID:
                raise
            raise Unresolvable("BadRequest", refusal.message) from refusal

    async def _check_own(self, claim: Claim) -> None:
        """Raise unless the resource of this name is the entity's own: NotYet while it is deleted, else Unresolvable."""
        resource = await self._get(claim)
        metadata = resource["metadata"]
        if not _belongs_to(resource, claim):
            where = f"{metadata['namespace']}/{metadata['name']}"
            raise Unresolvable("NameConflict", f"{where} is there already and is not this entity's")
        if metadata.get("deletionTimestamp"):
            raise NotYet(f"{metadata['name']} is being deleted")

    async def _get(self, claim: Claim) -> Json:
        name = resource_name(claim.kind, claim.id)
        return await self._cluster.get(KUBE[claim.kind], name, account_namespace(claim.account))

    async def _get_own(self, claim: Claim) -> Json | None:
        """Return the entity's resource as the API has it now."""
        if claim.kind not in KUBE:
            return None
        try:
            resource = await self._get(claim)
        except NotFound:
            return None
        return resource if _belongs_to(resource, claim) else None

    # ---- deleting

    async def _remove(self, id: str, claim: Claim | None) -> None:
        """Delete every resource of the entity."""
        resources = {resource["metadata"]["uid"]: resource for resource in self._cache.find_resources(id)}
        # A resource that was made a moment ago may be missing from the cache.
        is_held = claim is not None and claim.admitted_at is not None and claim.released_at is None
        if claim and is_held and (own := await self._get_own(claim)):
            resources[own["metadata"]["uid"]] = own
        for uid, resource in resources.items():
            if not resource["metadata"].get("deletionTimestamp"):
                await self._delete(resource, uid)

    async def _delete(self, resource: Json, uid: str) -> None:
        kind, metadata = resource["kind"], resource["metadata"]
        try:
            await self._cluster.delete(CUSTOM[kind], metadata["name"], metadata["namespace"], uid=uid)
        except (NotFound, Conflict):
            return  # it has gone meanwhile, or is another resource now, which is reconciled for itself
        _log.info("deleted %s %s", kind, metadata["name"])

    async def _has_stopped(self, claim: Claim) -> bool:
        """Return whether nothing of the entity's workflow runs or is about to."""
        resource = await self._get_own(claim)
        # A resource without its end may still make Pods, even if none runs at this moment.
        if resource and not is_finished(resource):
            return False
        pods = await self._cluster.list(
            PODS, account_namespace(claim.account), label_selector=f"{POD_ENTITY}={claim.id}"
        )
        # Asked of the API, not of a cache: a quota that is released too early gives the same GPU to two.
        return all(map(is_terminal, pods.items))


def _belongs_to(resource: Json, claim: Claim) -> bool:
    return bool(read_labels(resource).get(ENTITY) == claim.id)
