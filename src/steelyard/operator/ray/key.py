"""The platform's key: one Secret, made once, from which all authorities follow. Its holder can act as any of them."""

import base64
import logging
import os

from steelyard.operator.ray.certificates.authorities import KEY_BYTES, PlatformKey
from steelyard.operator.ray.owned import MANAGED
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json, mapping
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists, NotFound
from steelyard_kube.resource import SECRETS

_log = logging.getLogger(__name__)


class BadKey(Exception):
    """The Secret is there, but holds no such key. An administrator has to mend it: a new key would end all trust."""


async def platform_key(cluster: Cluster, settings: RaySettings) -> PlatformKey:
    """Return the key, which the first of several operators makes. Raises BadKey, ApiError."""
    name, namespace = settings.service_name, settings.namespace
    try:
        return _read(await cluster.get(SECRETS, name, namespace))
    except NotFound:
        pass
    texts = {"key": os.urandom(KEY_BYTES), "days": str(settings.certificate_days).encode()}
    data = {field: base64.b64encode(value).decode() for field, value in texts.items()}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(MANAGED)},
        "type": "Opaque",
        # It never changes: operators that read it at different times have the same key.
        "immutable": True,
        "data": data,
    }
    try:
        created = await cluster.create(SECRETS, secret)
        _log.info("made the platform's key, Secret %s/%s", namespace, name)
        return _read(created)
    except AlreadyExists:
        return _read(await cluster.get(SECRETS, name, namespace))


def _read(secret: Json) -> PlatformKey:
    metadata, data = secret["metadata"], mapping(secret, "data")
    try:
        key, days = base64.b64decode(data["key"], validate=True), int(base64.b64decode(data["days"]))
    except (KeyError, ValueError) as error:
        where = f"{metadata['namespace']}/{metadata['name']}"
        raise BadKey(f"Secret {where} has no key and days of the platform: {error!r}") from error
    if len(key) != KEY_BYTES or days < 1:
        raise BadKey(f"Secret {metadata['namespace']}/{metadata['name']}: key or days are damaged")
    return PlatformKey(key, days)
