"""Keeps the platform's objects of Ray clusters as they should be: `operator/main.py` runs it along with its workers.

Each change of a cluster leads to the same `sync`, which asks the API for each object by its name, so nothing is
remembered, and a crash between any two calls loses nothing. What depends on time, such as authorities, on what the API
serves, or on where the operators are, is checked in rounds, which then do the same for all clusters.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from steelyard.operator.ray.admission.configurations import configurations
from steelyard.operator.ray.applying import RETRY_SECONDS, apply, apply_configurations
from steelyard.operator.ray.certificates.authorities import SERVICE
from steelyard.operator.ray.certificates.decisions import ending
from steelyard.operator.ray.key import BadKey, platform_key
from steelyard.operator.ray.objects import annotation_changes, make_objects
from steelyard.operator.ray.owned import CLUSTER, Platform, has_certificates
from steelyard.operator.ray.serving.server import NOWHERE, ServedAddresses, is_called_directly, utc_now
from steelyard.operator.ray.settings import RaySettings
from steelyard_common.types import Json, sequence
from steelyard_kube.cluster import Cluster, Resource
from steelyard_kube.errors import ApiError, Conflict, NotFound
from steelyard_kube.informer import Informer
from steelyard_kube.objects import is_deleting
from steelyard_kube.resource import ENDPOINT_SLICES, HTTP_ROUTES, PODS, RAY_CLUSTERS, ROUTES
from steelyard_kube.workqueue import WorkQueue

Key = tuple[str, str]
Record = Callable[[Json, Literal["Normal", "Warning"], str, str], None]
"""Records an event of a RayCluster: type, reason, message."""
ROUND_SECONDS = 600.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Surroundings:
    """Facts that the process knows by itself."""

    served: ServedAddresses = NOWHERE
    now: Callable[[], datetime] = utc_now
    record: Record = lambda cluster, type, reason, message: None


async def run_ray(
    cluster: Cluster,
    settings: RaySettings,
    namespace: str | None = None,
    surroundings: Surroundings | None = None,
) -> None:
    """Follow the clusters until cancelled."""
    await _Loop(cluster, settings, namespace, surroundings or Surroundings()).run()


class _Loop:
    def __init__(
        self, cluster: Cluster, settings: RaySettings, namespace: str | None, surroundings: Surroundings
    ) -> None:
        self._cluster, self._settings, self._surroundings = cluster, settings, surroundings
        self._queue: WorkQueue[Key] = WorkQueue(tenant=lambda key: key[0])
        self._due = asyncio.Event()
        self._platform: Platform | None = None
        self._clusters = Informer(
            cluster, RAY_CLUSTERS, namespace=namespace, on_change=self._note_change, optional=True
        )
        self._operators = Informer(
            cluster,
            ENDPOINT_SLICES,
            namespace=settings.namespace,
            label_selector=f"kubernetes.io/service-name={settings.service_name}",
            on_change=lambda old, new: self._due.set(),
        )

    def _note_change(self, old: Json | None, new: Json | None) -> None:
        if new is not None:
            self._queue.add((new["metadata"]["namespace"], new["metadata"]["name"]))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._clusters.run())
            if self._settings.login:
                tasks.create_task(self._operators.run())
            tasks.create_task(self._rounds())
            tasks.create_task(self._work())

    async def _rounds(self) -> None:
        """Check what all clusters depend on, then all clusters, from time to time and when it changes."""
        while True:
            self._due.clear()
            wait = ROUND_SECONDS
            try:
                self._platform = await find_platform(self._cluster, self._settings, self._surroundings)
            except (ApiError, BadKey) as error:
                _log.warning("the platform of Ray clusters: %s", error)
                wait = RETRY_SECONDS
            except Exception:  # noqa: BLE001 - the outermost edge: a strange object must not end the operator
                _log.exception("the platform of Ray clusters")
                wait = RETRY_SECONDS
            for obj in self._clusters.items():
                self._note_change(None, obj)
            # Not `wait_for`, which loses a cancellation that comes with a change: this task would never end.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._due.wait()

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                if self._platform is None:
                    continue  # the first round adds all again
                await sync(self._cluster, self._settings, key, self._current(), self._surroundings.record)
            except ApiError as error:
                _log.warning(
                    "RayCluster %s: %s; again in %.1f s", "/".join(key), error, self._queue.retry(key)
                )
            except Exception:  # noqa: BLE001 - the outermost edge: one cluster's defect must not stop the others
                _log.exception("RayCluster %s: again in %.1f s", "/".join(key), self._queue.retry(key))
            else:
                self._queue.forget(key)
            finally:
                self._queue.finish(key)

    def _current(self) -> Platform:
        assert self._platform is not None
        return Platform(**{**vars(self._platform), "now": self._surroundings.now()})


async def find_platform(cluster: Cluster, settings: RaySettings, surroundings: Surroundings) -> Platform:
    """Find out what decisions depend on, and bring the webhooks to it: the key first, then who trusts it."""
    now, served = surroundings.now(), surroundings.served
    key = await platform_key(cluster, settings) if settings.certificates or settings.admission else None
    url = served.url if is_called_directly(settings) else ""
    bundle = key.bundle(now, SERVICE) if key else ""
    await apply_configurations(cluster, configurations(settings, url, bundle))
    dashboard = await dashboard_kind(cluster, settings)
    addresses = await _login_addresses(cluster, settings) if settings.login and dashboard else ()
    return Platform(now, dashboard, key, addresses, served.login_url)


async def dashboard_kind(cluster: Cluster, settings: RaySettings) -> str:
    """Return the kind of object that leads to dashboards; with the setting `auto`, by what the API has."""
    if settings.dashboard != "auto":
        return settings.dashboard
    if await _is_served(cluster, ROUTES):
        return "route"
    if settings.gateway and await _is_served(cluster, HTTP_ROUTES):
        return "httproute"
    return "ingress"


async def _is_served(cluster: Cluster, resource: Resource) -> bool:
    try:
        # A kind that the API does not have is not found; one without objects is an empty list.
        await cluster.list(resource, "default")
    except NotFound:
        return False
    return True


async def _login_addresses(cluster: Cluster, settings: RaySettings) -> tuple[tuple[str, int], ...]:
    """Return where the operators serve the login: the ready endpoints of port 80 of their Service."""
    selector = f"kubernetes.io/service-name={settings.service_name}"
    slices = await cluster.list(ENDPOINT_SLICES, settings.namespace, label_selector=selector)
    addresses = set()
    for part in slices.items:
        ports = [port["port"] for port in sequence(part, "ports") if port.get("name") == "login"]
        for endpoint in sequence(part, "endpoints"):
            if ports and (endpoint.get("conditions") or {}).get("ready") is not False:
                addresses.add((str(endpoint["addresses"][0]), int(ports[0])))
    return tuple(sorted(addresses))


async def sync(
    cluster: Cluster,
    settings: RaySettings,
    key: Key,
    platform: Platform,
    record: Record = Surroundings.record,
) -> None:
    """Bring the objects of one Ray cluster to what they should be, and then the cluster's annotations."""
    try:
        owner = await cluster.get(RAY_CLUSTERS, key[1], key[0])
    except NotFound:
        return
    uid = owner["metadata"]["uid"]
    for desired in make_objects(owner, settings, platform):
        try:
            await apply(cluster, desired, uid)
        except ApiError as error:
            described = f"{desired['kind']} {desired['metadata']['name']}"
            record(owner, "Warning", "FailedCreate", f"Error creating {described}: {error.message}")
            raise
    if changes := annotation_changes(owner, settings, platform):
        # With its uid: a namesake that was made meanwhile has other clients.
        patch: Json = {"metadata": {"uid": uid, "annotations": changes}}
        try:
            await cluster.patch(RAY_CLUSTERS, key[1], patch, key[0])
        except (Conflict, NotFound) as error:
            raise ApiError(f"RayCluster {'/'.join(key)} has changed meanwhile") from error
    if platform.key is not None and has_certificates(owner) and not is_deleting(owner):
        pods = await cluster.list(PODS, key[0], label_selector=f"{CLUSTER}={key[1]}")
        for pod, end in ending(pods.items, platform.key, platform.now):
            text = f"The certificate of Pod {pod} ends at {end:%Y-%m-%d %H:%M} UTC: delete the Pod before"
            record(owner, "Warning", "CertificateEnds", f"{text}, so that it gets another one")
