"""Secrets of accounts for workflows: who lacks one, and the Kubernetes Secrets that hold the values while they run.

An entity names a secret, and its resource names a Kubernetes Secret of its own. The orchestrator makes that before the
resource and deletes it once the workflow has stopped, so that a value lies in a namespace no longer than it is needed.

An orchestrator that was suspended and is not the leader any more may go on between any two of these calls. So a Secret
is changed and deleted as it was read, and the comparison finds one that was made after its workflow had stopped. An
orchestrator that makes a Secret for a workflow always changes its version, so that one that read it earlier cannot
delete it.
"""

import asyncio
import base64
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from pydantic import SecretStr

from steelyard.accounts.claims import Claim
from steelyard.accounts.secrets import SecretUnreadable
from steelyard.services.orchestrator.manifest import KUBE
from steelyard.services.orchestrator.namespaces import REPLACES
from steelyard.services.orchestrator.waiting import Decision, Wait
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists, Conflict, NotFound
from steelyard_kube.objects import read_labels
from steelyard_kube.resource import SECRETS
from steelyard_schema.entities import parse_entity
from steelyard_schema.names import account_namespace, resource_name
from steelyard_schema.secrets import ANNOTATION, PURPOSES, SecretPurpose, list_needed_secrets, object_name

CHUNK = 500
"""Number of claims that are looked at before other tasks have their turn."""
WAITING = "WaitingForSecret"
"""Reason of an entity whose secret is missing or of no use."""
VALUE = "value"
"""Key of the value in a Kubernetes Secret, and name of the file that a Pod sees."""
_MARK = f'"{ANNOTATION}'.encode()
_OWNER_ENTITY = "steelyard/entity"
_MADE_BY = {"app.kubernetes.io/managed-by": "steelyard-orchestrator"}
_SELECTOR = f"app.kubernetes.io/managed-by=steelyard-orchestrator,{_OWNER_ENTITY}"
_PULL_TYPE, _PULL_KEY = "kubernetes.io/dockerconfigjson", ".dockerconfigjson"


class SecretValues(Protocol):
    """Reader of what accounts have stored, as `accounts/secrets/secrets.py` is."""

    async def has(self, account: str, name: str) -> bool:
        """Return whether the account has a secret of this name, readable or not."""
        ...

    async def value(self, account: str, name: str) -> SecretStr | None:
        """Return the newest value, None where there is none. Raises SecretUnreadable."""
        ...


class NoSecrets:
    """A reader where there are no secrets."""

    async def has(self, account: str, name: str) -> bool:
        return False

    async def value(self, account: str, name: str) -> SecretStr | None:
        return None


class SecretLacking(Exception):
    """A secret that the workflow needs is missing or of no use; the text names the field and the secret."""


class ForeignSecret(Exception):
    """A Kubernetes Secret of the name that a workflow needs has another owner."""


async def lacking_secrets(claims: Iterable[Claim], values: SecretValues) -> dict[str, Decision]:
    """Return, by id, decisions for claims that wait for a secret; each secret is looked up once."""
    known: dict[tuple[str, str], bool] = {}
    waits: dict[str, Decision] = {}
    for number, claim in enumerate(claims, 1):
        if number % CHUNK == 0:
            await asyncio.sleep(0)  # the lease has to be renewed meanwhile
        for purpose, name in list_needed(claim).items():
            secret = (claim.account, name)
            if secret not in known:
                known[secret] = await values.has(*secret)
            if not known[secret]:
                waits[claim.id] = Wait(WAITING, _missing(purpose, name, claim.account))
                break
    return waits


def list_needed(claim: Claim) -> Mapping[SecretPurpose, str]:
    """Return the names of the secrets that an entity's workflow needs, by purpose."""
    # Most entities name no secret, and need not be parsed at every pass.
    return list_needed_secrets(parse_entity(claim.json)) if _MARK in claim.json else {}


class WorkflowSecrets:
    """The Kubernetes Secrets of workflows."""

    def __init__(self, cluster: Cluster, values: SecretValues) -> None:
        self._cluster = cluster
        self._values = values

    async def make(self, claim: Claim) -> None:
        """Make the Secrets that the entity's resource names, with the newest values. The namespace is there.

        Raises SecretLacking, ForeignSecret, ApiError.
        """
        needed = list_needed(claim)
        # Read before the values: a Secret that another orchestrator writes from then on may have a newer one.
        existing = {purpose: await self._find(claim, purpose) for purpose in needed}
        secrets = {
            purpose: _secret(claim, purpose, await self._value(claim, purpose, name))
            for purpose, name in needed.items()
        }
        for purpose, secret in secrets.items():
            await self._put(claim, secret, existing[purpose])

    async def set_owner(self, claim: Claim) -> None:
        """Make the entity's resource the owner of its Secrets, which then go with it. Raises ApiError."""
        secrets = await self.existing(claim)
        if not secrets:
            return  # the workflow has stopped, or a user has deleted them; the Pod says that one is missing
        # Read after the Secrets, which are patched as they were read: a resource that was deleted and made again since
        # has others.
        resource = await self._resource(claim)
        metadata = resource["metadata"]
        owner = {
            "apiVersion": resource["apiVersion"],
            "kind": resource["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        for secret in secrets:
            with suppress(NotFound):
                await self._patch(secret, {"ownerReferences": [owner]})

    async def existing(self, claim: Claim) -> list[Json]:
        """Return the Secrets of an entity's workflow."""
        if _MARK not in claim.json:
            return []
        secrets = [await self._find(claim, purpose) for purpose in PURPOSES]
        return [secret for secret in secrets if secret is not None and _belongs_to(secret, claim)]

    async def by_entity(self, namespace: str) -> dict[str, list[Json]]:
        """Return the metadata of the Secrets of an account's workflows, by the ids of their entities."""
        listed = await self._cluster.list(SECRETS, namespace, label_selector=_SELECTOR)
        secrets: dict[str, list[Json]] = {}
        for secret in listed.items:
            metadata = {"metadata": secret["metadata"]}
            secrets.setdefault(read_labels(secret)[_OWNER_ENTITY], []).append(metadata)
        return secrets

    async def delete(self, secrets: Iterable[Json]) -> None:
        """Delete these Secrets as they were read.

        Raises Conflict if one was changed or made again since: the entity may have been restored, and has to be read
        again before anything is decided.
        """
        for metadata in (secret["metadata"] for secret in secrets):
            name, namespace = metadata["name"], metadata["namespace"]
            uid, version = metadata["uid"], metadata["resourceVersion"]
            with suppress(NotFound):
                await self._cluster.delete(SECRETS, name, namespace, uid=uid, resource_version=version)

    async def _value(self, claim: Claim, purpose: SecretPurpose, name: str) -> str:
        try:
            value = await self._values.value(claim.account, name)
        except SecretUnreadable as error:
            raise SecretLacking(f"secrets.{purpose}: {error}") from error
        if value is None:
            raise SecretLacking(_missing(purpose, name, claim.account))
        clear = value.get_secret_value()
        if purpose == "imagePull" and not _is_docker_configuration(clear):
            raise SecretLacking(
                f"secrets.{purpose}: secret {name} of account {claim.account} is not a Docker configuration, which is "
                'JSON such as {"auths": {"registry.example.com": {"auth": "..."}}}'
            )
        return clear

    async def _put(self, claim: Claim, secret: Json, existing: Json | None) -> None:
        """Create a Secret, or write it over the one that was there when its value was read."""
        if existing is None:
            await self._create(secret)
        elif not _belongs_to(existing, claim):
            metadata = existing["metadata"]
            raise ForeignSecret(
                f"Secret {metadata['namespace']}/{metadata['name']} is there already and is not this entity's"
            )
        elif not existing["metadata"].get("ownerReferences"):
            # The annotation makes it another version also if the value is the same.
            version = {REPLACES: existing["metadata"]["resourceVersion"]}
            await self._patch(existing, {"annotations": version}, data=secret["data"])
        elif not await self._owner_exists(claim, existing):
            # It belongs to an earlier resource of the entity, and the garbage collection may be about to delete it. It
            # deletes by uid, so another object of the name is safe.
            await self.delete([existing])
            await self._create(secret)

    async def _create(self, secret: Json) -> None:
        try:
            await self._cluster.create(SECRETS, secret)
        except AlreadyExists as error:
            raise Conflict(f"{error.message}: it was made by another orchestrator") from error

    async def _patch(self, secret: Json, metadata: Json, **content: Json) -> None:
        """Change a Secret as it was read. Raises Conflict if it was changed since, NotFound."""
        name, namespace = secret["metadata"]["name"], secret["metadata"]["namespace"]
        version = {"resourceVersion": secret["metadata"]["resourceVersion"]}
        await self._cluster.patch(SECRETS, name, {"metadata": metadata | version, **content}, namespace)

    async def _find(self, claim: Claim, purpose: SecretPurpose) -> Json | None:
        try:
            return await self._cluster.get(SECRETS, _name(claim, purpose), account_namespace(claim.account))
        except NotFound:
            return None

    async def _owner_exists(self, claim: Claim, secret: Json) -> bool:
        """Return whether a Secret belongs to the entity's resource as it is now, made by another orchestrator."""
        try:
            uid = (await self._resource(claim))["metadata"]["uid"]
        except NotFound:
            return False
        return any(owner["uid"] == uid for owner in secret["metadata"]["ownerReferences"])

    async def _resource(self, claim: Claim) -> Json:
        name = resource_name(claim.kind, claim.id)
        return await self._cluster.get(KUBE[claim.kind], name, account_namespace(claim.account))


def _belongs_to(secret: Json, claim: Claim) -> bool:
    return bool(read_labels(secret).get(_OWNER_ENTITY) == claim.id)


def _secret(claim: Claim, purpose: SecretPurpose, value: str) -> Json:
    type_, key = (_PULL_TYPE, _PULL_KEY) if purpose == "imagePull" else ("Opaque", VALUE)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": _name(claim, purpose),
            "namespace": account_namespace(claim.account),
            "labels": {**_MADE_BY, _OWNER_ENTITY: claim.id},
        },
        "type": type_,
        "data": {key: base64.b64encode(value.encode()).decode()},
    }


def _name(claim: Claim, purpose: SecretPurpose) -> str:
    return object_name(resource_name(claim.kind, claim.id), purpose)


def _missing(purpose: SecretPurpose, name: str, account: str) -> str:
    return f"secrets.{purpose}: account {account} has no secret {name}; it is waited for"


def _is_docker_configuration(text: str) -> bool:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and isinstance(content.get("auths"), dict)
