"""Secrets of accounts for workflows: who lacks one, and the Kubernetes Secrets that hold the values while they run.

An entity names a secret, and its resource names a Kubernetes Secret of its own. The orchestrator makes that before the
resource and deletes it once the workflow has stopped, so that a value lies in a namespace no longer than it is needed.
"""

import asyncio
import base64
import json
from collections.abc import Iterable, Mapping
from typing import Protocol

from pydantic import SecretStr

from steelyard.accounts.database import Claim
from steelyard.accounts.secrets import SecretUnreadable
from steelyard.kube.cluster import Cluster
from steelyard.kube.errors import AlreadyExists, Conflict, NotFound
from steelyard.kube.objects import labels_of
from steelyard.kube.resource import SECRETS
from steelyard.schema.entities import entity_of
from steelyard.schema.names import namespace_of, resource_name
from steelyard.schema.secrets import ANNOTATION, PURPOSES, SecretPurpose, needed_secrets, object_name
from steelyard.services.orchestrator.waiting import Decision, Wait
from steelyard.types import Json

CHUNK = 500
"""Number of claims that are looked at before other tasks have their turn."""
WAITING = "WaitingForSecret"
"""Reason of an entity whose secret is missing or of no use."""
VALUE = "value"
"""Key of the value in a Kubernetes Secret, and name of the file that a Pod sees."""
_MARK = f'"{ANNOTATION}'.encode()
_OWNER_ENTITY = "steelyard/entity"
_MADE_BY = {"app.kubernetes.io/managed-by": "steelyard-orchestrator"}
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
    """A Kubernetes Secret of the name that a workflow needs is somebody else's."""


async def lacking_secrets(claims: Iterable[Claim], values: SecretValues) -> dict[str, Decision]:
    """Return, by id, decisions for claims that wait for a secret; each secret is looked up once."""
    known: dict[tuple[str, str], bool] = {}
    waits: dict[str, Decision] = {}
    for number, claim in enumerate(claims, 1):
        if number % CHUNK == 0:
            await asyncio.sleep(0)  # the lease has to be renewed meanwhile
        for purpose, name in needed_by(claim).items():
            secret = (claim.account, name)
            if secret not in known:
                known[secret] = await values.has(*secret)
            if not known[secret]:
                waits[claim.id] = Wait(WAITING, _missing(purpose, name, claim.account))
                break
    return waits


def needed_by(claim: Claim) -> Mapping[SecretPurpose, str]:
    """Return the names of the secrets that an entity's workflow needs, by purpose."""
    # Most entities name no secret, and need not be parsed at every pass.
    return needed_secrets(entity_of(claim.json)) if _MARK in claim.json else {}


class WorkflowSecrets:
    """The Kubernetes Secrets of workflows."""

    def __init__(self, cluster: Cluster, values: SecretValues) -> None:
        self._cluster = cluster
        self._values = values

    async def make(self, claim: Claim) -> None:
        """Make the Secrets that the entity's resource names, with the newest values. The namespace is there.

        Raises SecretLacking, ForeignSecret, ApiError.
        """
        secrets = [
            _secret(claim, purpose, await self._value(claim, purpose, name))
            for purpose, name in needed_by(claim).items()
        ]
        for secret in secrets:
            await self._put(secret)

    async def set_owner(self, claim: Claim, resource: Json) -> None:
        """Make the resource the owner of its Secrets, which then go with it."""
        metadata = resource["metadata"]
        owner = {
            "apiVersion": resource["apiVersion"],
            "kind": resource["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        patch = {"metadata": {"ownerReferences": [owner]}}
        for purpose in needed_by(claim):
            try:
                await self._cluster.patch(SECRETS, _name(claim, purpose), patch, namespace_of(claim.account))
            except NotFound:
                continue  # the workflow has stopped, or somebody has deleted it; the Pod says that it is missing

    async def remove(self, claim: Claim) -> None:
        """Delete the Secrets of a workflow that has stopped."""
        if _MARK not in claim.json:
            return
        for purpose in PURPOSES:
            name, namespace = _name(claim, purpose), namespace_of(claim.account)
            try:
                existing = await self._cluster.get(SECRETS, name, namespace)
                if labels_of(existing).get(_OWNER_ENTITY) == claim.id:
                    await self._cluster.delete(SECRETS, name, namespace, uid=existing["metadata"]["uid"])
            except (NotFound, Conflict):
                continue

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
                f"secrets.{purpose}: secret {name} of account {claim.account} is no Docker configuration, which is "
                'JSON such as {"auths": {"registry.example.com": {"auth": "..."}}}'
            )
        return clear

    async def _put(self, secret: Json) -> None:
        try:
            await self._cluster.create(SECRETS, secret)
            return
        except AlreadyExists:
            metadata = secret["metadata"]
        existing = await self._cluster.get(SECRETS, metadata["name"], metadata["namespace"])
        if labels_of(existing).get(_OWNER_ENTITY) != metadata["labels"][_OWNER_ENTITY]:
            raise ForeignSecret(
                f"Secret {metadata['namespace']}/{metadata['name']} is there already and is not this entity's"
            )
        if not existing["metadata"].get("ownerReferences"):
            patch = {"data": secret["data"]}
            await self._cluster.patch(SECRETS, metadata["name"], patch, metadata["namespace"])
            return
        # It belongs to an earlier resource of the entity, and the garbage collection may be about to delete it. It
        # deletes by uid, so another object of the name is safe.
        uid = existing["metadata"]["uid"]
        await self._cluster.delete(SECRETS, metadata["name"], metadata["namespace"], uid=uid)
        await self._cluster.create(SECRETS, secret)


def _secret(claim: Claim, purpose: SecretPurpose, value: str) -> Json:
    type_, key = (_PULL_TYPE, _PULL_KEY) if purpose == "imagePull" else ("Opaque", VALUE)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": _name(claim, purpose),
            "namespace": namespace_of(claim.account),
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
