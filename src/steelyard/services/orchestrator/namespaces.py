"""The namespace of each account: its name, and what stands in it before the account's first workflow does.

The orchestrator makes it. Role bindings, quotas and policies of a cluster hang on the same namespace.
"""

import base64
import logging
import re
from collections.abc import Awaitable, Callable, Mapping

from pydantic import SecretStr

from steelyard.services.orchestrator.settings import DOCKER_CONFIG, STORAGE_SECRET, OrchestratorSettings
from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import AlreadyExists, NotFound
from steelyard_kube.resource import NAMESPACES, SECRETS, Resource
from steelyard_schema.names import account_namespace

_log = logging.getLogger(__name__)

NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
ACCOUNT = "dyff.io/account"
REPLACES = "steelyard/replaces"
"""Annotation of a Secret: version of the one that was there before."""
_MADE_BY = {"app.kubernetes.io/managed-by": "steelyard-orchestrator"}
_SELECTOR = "app.kubernetes.io/managed-by=steelyard-orchestrator"
PER_ROUND = 50
"""Namespaces that one comparison looks into."""
_COMPONENT = "app.kubernetes.io/component"


def label_value(text: str) -> str:
    """The text where it may be a label's value, else what its namespace is named after."""
    if re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", text):
        return text
    return account_namespace(text).removeprefix("acct-")


def namespace_objects(account: str, settings: OrchestratorSettings) -> list[tuple[Resource, Json]]:
    """Return the objects of the account's namespace in the order in which they are made: policies before any work."""
    name = account_namespace(account)
    labels = {**settings.namespace_labels, **_MADE_BY, ACCOUNT: label_value(account)}
    namespace: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    objects = [(NAMESPACES, namespace), *((NETWORK_POLICIES, policy) for policy in _policies(name, settings))]
    if credentials := settings.storage_credentials:
        objects.append((SECRETS, _secret(STORAGE_SECRET, name, credentials, "Opaque")))
    for pull, content in sorted(settings.pull_secrets.items()):
        secret = _secret(pull, name, {DOCKER_CONFIG: content}, "kubernetes.io/dockerconfigjson")
        objects.append((SECRETS, secret))
    return objects


def _secret(name: str, namespace: str, values: Mapping[str, SecretStr], type: str) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": _MADE_BY}
    data = {
        key: base64.b64encode(value.get_secret_value().encode()).decode()
        for key, value in sorted(values.items())
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type, "data": data}


class Namespaces:
    """Makes missing objects, once per process and namespace; existing ones are left, Secrets are renewed."""

    def __init__(
        self, cluster: Cluster, settings: OrchestratorSettings, ensure_leader: Callable[[], Awaitable[None]]
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._ensure_leader = ensure_leader
        self._made: set[str] = set()
        self._without_policies = False
        self._last = ""

    async def ensure(self, account: str) -> str:
        """The name of the account's namespace, which is there when this returns. Raises ApiError."""
        name = account_namespace(account)
        if name not in self._made:
            for resource, obj in namespace_objects(account, self._settings):
                await self._put(resource, obj)
            self._made.add(name)
        return name

    def forget(self, account: str) -> None:
        """Note that the namespace was deleted by a user: the next `ensure` checks again."""
        self._made.discard(account_namespace(account))

    async def next_round(self, most: int = PER_ROUND) -> list[str]:
        """Return the next namespaces of accounts to look into; after the last one it begins again. Raises ApiError.

        The namespaces of others are never looked into, and however many accounts there are, a round stays short.
        """
        listed = await self._cluster.list(NAMESPACES, label_selector=_SELECTOR)
        # One that an administrator has made for an account has no label of ours.
        names = sorted({*self._made, *(item["metadata"]["name"] for item in listed.items)})
        later = [name for name in names if name > self._last]
        chosen = [*later, *(name for name in names if name <= self._last)][:most]
        self._last = chosen[-1] if chosen else ""
        return chosen

    async def _put(self, resource: Resource, obj: Json) -> None:
        if resource == NETWORK_POLICIES and self._without_policies:
            return
        try:
            await self._cluster.create(resource, obj)
        except AlreadyExists:
            if resource == SECRETS:
                await self._renew(obj)
        except NotFound as error:
            if resource != NETWORK_POLICIES or not await self._served_namespace(obj):
                raise
            self._without_policies = True
            _log.info("this Kubernetes serves no network policies, so none are made: %s", error)

    async def _renew(self, secret: Json) -> None:
        """Write the credentials over those that are there. Raises Conflict if a later leader has done so meanwhile."""
        name, namespace = secret["metadata"]["name"], secret["metadata"]["namespace"]
        version = (await self._cluster.get(SECRETS, name, namespace))["metadata"]["resourceVersion"]
        # A process that was suspended may have older settings than the leader of now. Checked after the version was
        # read: whoever leads from now on changes it, because the annotation does so also where the credentials are the
        # same.
        await self._ensure_leader()
        metadata = {"resourceVersion": version, "annotations": {REPLACES: version}}
        await self._cluster.patch(SECRETS, name, {"metadata": metadata, "data": secret["data"]}, namespace)

    async def _served_namespace(self, obj: Json) -> bool:
        """Return whether the namespace is there, so that a 404 speaks of the kind and not of the namespace."""
        try:
            await self._cluster.get(NAMESPACES, obj["metadata"]["namespace"])
        except NotFound:
            return False
        return True


def _policies(namespace: str, settings: OrchestratorSettings) -> list[Json]:
    """Return policies that let only clients of the same account and the platform call runners.

    What Pods themselves may call is bounded where the settings say so.
    """
    callers: list[Json] = [
        {"podSelector": {"matchLabels": {_COMPONENT: "client"}}},
        {
            "namespaceSelector": {"matchLabels": settings.api_namespace},
            "podSelector": {"matchLabels": {_COMPONENT: "api"}},
        },
    ]
    rule = {"from": callers, "ports": [{"protocol": "TCP", "port": port} for port in (8000, 8001)]}
    bounds: Json = {"podSelector": {}, "policyTypes": ["Egress"], "egress": settings.egress}
    return [
        *([] if settings.egress is None else [_policy(namespace, "steelyard-egress", bounds)]),
        _policy(namespace, "steelyard-default", {"podSelector": {}, "policyTypes": ["Ingress"]}),
        _policy(
            namespace,
            "steelyard-runners",
            {
                "podSelector": {"matchLabels": {_COMPONENT: "session"}},
                "policyTypes": ["Ingress"],
                "ingress": [rule],
            },
        ),
    ]


def _policy(namespace: str, name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": _MADE_BY}
    return {
        "apiVersion": NETWORK_POLICIES.api_version,
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": spec,
    }
