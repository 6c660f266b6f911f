"""The group `client.ray.clusters`: Ray clusters, made, read, waited for, changed and deleted."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from steelyard.clusters.blocking import Sync, blocking
from steelyard.clusters.connection import Connection
from steelyard.clusters.errors import BadConfig, Fault, Forbidden, NotFound, Unsupported
from steelyard.clusters.kinds import (
    CLAIM,
    EVENT,
    HTTP_ROUTE,
    INGRESS,
    POD,
    RAY_CLUSTER,
    ROUTE,
    SECRET,
    WORKLOAD,
    Kind,
)
from steelyard.clusters.queues.choice import choose_queue
from steelyard.clusters.queues.view import WorkloadView, find_position
from steelyard.clusters.ray import names
from steelyard.clusters.ray.certificate import CERTIFICATE_SECONDS, ClientCertificate, certificate
from steelyard.clusters.ray.config import ClusterConfig, queue_faults
from steelyard.clusters.ray.dashboard import find_url, local_url
from steelyard.clusters.ray.manifest import ray_cluster
from steelyard.clusters.ray.plan import Plan, dry_run
from steelyard.clusters.ray.status import ClusterStatus, cluster_status, needs_pods, needs_queue
from steelyard.clusters.ray.view import RayCluster
from steelyard.clusters.ray.volumes import NewClaim, NewSecret
from steelyard.clusters.reading import items, number, text
from steelyard.clusters.waiting import POLL_SECONDS, STUCK_SECONDS, wait_for
from steelyard_common.types import Json
from steelyard_kube.objects import read_labels

AUTOSCALER = "python-requests"
"""Field manager of Ray's autoscaler, which names none: the API takes the name of its HTTP client."""


class AsyncClusters:
    """Ray clusters of a Kubernetes cluster."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def manifest(self, config: ClusterConfig) -> Json:
        """Return the RayCluster of a configuration, with the queue that it would use. Raises BadConfig."""
        namespace = self._connection.resolve_namespace(config.namespace)
        queue = await choose_queue(self._connection, config.queue, config.queue_policy, namespace)
        if queue is not None and (faults := list(queue_faults(config))):
            raise BadConfig("ClusterConfig", faults)
        return ray_cluster(config, namespace, queue)

    async def create(self, config: ClusterConfig) -> RayCluster:
        """Make a new cluster. Raises AlreadyExists, BadConfig."""
        return RayCluster(await self._connection.create(RAY_CLUSTER, await self.manifest(config)))

    async def apply(self, config: ClusterConfig, *, force: bool = False) -> RayCluster:
        """Make the cluster, or change it to what the configuration says, by server-side apply.

        Fields that others have set stay. Raises Conflict where one of them is set here too, unless `force`. Numbers of
        workers that the autoscaler has set stay in any case.
        """
        manifest = await self._with_scale(config)
        also = () if config.autoscaling is None else (AUTOSCALER,)
        applied = await self._connection.apply(RAY_CLUSTER, manifest, force=force, also=also)
        return RayCluster(applied)

    async def dry_run(self, config: ClusterConfig) -> Plan:
        """Return what `apply` would send, and what it would change; the API server checks it, and keeps nothing."""
        return await dry_run(self._connection, RAY_CLUSTER, await self._with_scale(config))

    async def _with_scale(self, config: ClusterConfig) -> Json:
        """Return the manifest with what the autoscaler has written, where the configuration says nothing of it.

        The list of groups is one field for a server-side apply: a group that is not in it would be gone.
        """
        manifest = await self.manifest(config)
        if config.autoscaling is None:
            return manifest
        metadata = manifest["metadata"]
        try:
            cluster = await self._connection.get(RAY_CLUSTER, metadata["name"], metadata["namespace"])
        except NotFound:
            return manifest
        there = {text(group, "groupName"): group for group in items(cluster, "spec", "workerGroupSpecs")}
        for group in manifest["spec"]["workerGroupSpecs"]:
            old = there.get(group["groupName"], {})
            if "replicas" not in group and "replicas" in old:
                group["replicas"] = min(
                    max(number(old, "replicas"), group["minReplicas"]), group["maxReplicas"]
                )
            if "scaleStrategy" in old:
                group["scaleStrategy"] = old["scaleStrategy"]
        return manifest

    async def get(self, name: str, namespace: str | None = None) -> RayCluster:
        """Return the cluster as it is, with fields of any version. Raises NotFound."""
        return RayCluster(await self._connection.get(RAY_CLUSTER, name, namespace))

    async def save(self, cluster: RayCluster) -> RayCluster:
        """Write a cluster that was read and changed. Raises Conflict if another client has changed it meanwhile."""
        return RayCluster(await self._connection.replace(RAY_CLUSTER, cluster.resource))

    async def list(
        self, namespace: str | None = None, *, everywhere: bool = False
    ) -> Sequence[ClusterStatus]:
        """Return the status of all clusters by name: at most three requests, however many there are."""
        connection = self._connection
        clusters = await connection.list(RAY_CLUSTER, namespace, everywhere=everywhere)
        workloads: Sequence[Json] = ()
        pods: Sequence[Json] = ()
        if any(needs_queue(cluster) for cluster in clusters):
            workloads = await self._optional(WORKLOAD, namespace, everywhere)
        if any(needs_pods(cluster) for cluster in clusters):
            pods = await self._optional(POD, namespace, everywhere, names.CLUSTER)
        views, now = [WorkloadView(obj) for obj in workloads], datetime.now(UTC)
        by_cluster: dict[tuple[str, str], list[Json]] = {}
        for pod in pods:
            key = text(pod, "metadata", "namespace"), read_labels(pod).get(names.CLUSTER, "")
            by_cluster.setdefault(key, []).append(pod)
        statuses = []
        for cluster in clusters:
            place = (
                find_position(text(cluster, "metadata", "uid"), views, now) if needs_queue(cluster) else None
            )
            key = text(cluster, "metadata", "namespace"), text(cluster, "metadata", "name")
            own = by_cluster.get(key, [])
            statuses.append(cluster_status(cluster, own, place=place))
        return sorted(statuses, key=lambda status: (status.namespace, status.name))

    async def status(self, name: str, namespace: str | None = None) -> ClusterStatus:
        """Return where the cluster stands, and why: at most three requests. Raises NotFound."""
        cluster = await self._connection.get(RAY_CLUSTER, name, namespace)
        where = text(cluster, "metadata", "namespace")
        if needs_queue(cluster):
            workloads = [WorkloadView(obj) for obj in await self._optional(WORKLOAD, where)]
            place = find_position(text(cluster, "metadata", "uid"), workloads, datetime.now(UTC))
            if (place is not None and not place.admitted) or not needs_pods(cluster):
                return cluster_status(cluster, place=place)
            pods = await self._optional(POD, where, labels=f"{names.CLUSTER}={name}")
            return cluster_status(cluster, pods, place=place)
        if not needs_pods(cluster):
            return cluster_status(cluster)
        pods = await self._optional(POD, where, labels=f"{names.CLUSTER}={name}")
        return cluster_status(cluster, pods, await self._optional(EVENT, where))

    async def wait(
        self,
        name: str,
        namespace: str | None = None,
        *,
        timeout: float | None = None,
        poll: float = POLL_SECONDS,
        patience: float = STUCK_SECONDS,
        on_change: Callable[[ClusterStatus], None] | None = None,
    ) -> ClusterStatus:
        """Return the status when the cluster is ready, with all workers that its specification asks for at this moment.

        After `scale` or `apply` these are the new ones; with autoscaling `min_replicas` of each group. `on_change` is
        called with each new status before that.

        Raises Failed as soon as it has failed, or when its Pods cannot start (no such image, a crash at each start)
        for `patience` seconds; WaitTimeout after `timeout` seconds; NotFound when it is deleted. All say why.
        """
        return await wait_for(
            lambda: self.status(name, namespace),
            done=lambda status: status.complete,
            stuck=lambda status: status.stuck,
            # A failure of before a change may still stand there: it counts when it stays.
            failed=lambda status: status.failed and status.observed,
            timeout=timeout,
            poll=poll,
            patience=patience,
            on_change=on_change,
        )

    async def delete(self, name: str, namespace: str | None = None) -> None:
        """Delete the cluster, and with it its Pods. Raises NotFound."""
        await self._connection.delete(RAY_CLUSTER, name, namespace)

    async def suspend(self, name: str, namespace: str | None = None) -> RayCluster:
        """End the cluster's Pods; `resume` starts them again. Raises BadConfig where a queue decides about it."""
        return await self._suspend(name, namespace, True)

    async def resume(self, name: str, namespace: str | None = None) -> RayCluster:
        """Start a suspended cluster again. Raises BadConfig where a queue decides about it."""
        return await self._suspend(name, namespace, False)

    async def _suspend(self, name: str, namespace: str | None, suspend: bool) -> RayCluster:
        cluster = await self.get(name, namespace)
        if cluster.queue:
            # Kueue writes this field by itself, and would take the change for its own.
            said = f"is decided by queue {cluster.queue}: deactivate its workload instead"
            raise BadConfig(name, [Fault("spec.suspend", said)])
        patch: Json = {"spec": {"suspend": suspend}}
        return RayCluster(await self._connection.patch(RAY_CLUSTER, name, patch, namespace))

    async def scale(
        self, name: str, replicas: int, *, group: str | None = None, namespace: str | None = None
    ) -> RayCluster:
        """Change the number of a group's workers; `group` may be left out where there is one. Raises BadConfig."""
        cluster = await self.get(name, namespace)
        if group is None and len(cluster.groups) != 1:
            raise BadConfig(name, [Fault("group", f"should be one of {', '.join(cluster.groups)}")])
        groups = items(cluster.resource, "spec", "workerGroupSpecs")
        wanted = group or next(iter(cluster.groups))
        index = next((n for n, spec in enumerate(groups) if text(spec, "groupName") == wanted), None)
        if index is None:
            there = ", ".join(cluster.groups)
            raise BadConfig(name, [Fault("group", f"{wanted}: there is no such group; there are {there}")])
        if isinstance(replicas, bool) or replicas < 0:
            raise BadConfig(name, [Fault("replicas", f"{replicas} must not be negative")])
        path = f"/spec/workerGroupSpecs/{index}"
        # The test refuses the patch where another client has changed the list of groups meanwhile.
        patch: list[Json] = [{"op": "test", "path": f"{path}/groupName", "value": wanted}]
        fields = {"replicas": replicas}
        if not cluster.resource["spec"].get("enableInTreeAutoscaling"):
            fields |= {"minReplicas": replicas, "maxReplicas": replicas}
        patch += [{"op": "add", "path": f"{path}/{field}", "value": value} for field, value in fields.items()]
        return RayCluster(await self._connection.patch(RAY_CLUSTER, name, patch, namespace))

    async def dashboard(self, name: str, namespace: str | None = None) -> str | None:
        """Return the dashboard's address outside the cluster; None where nothing of the cluster's own leads there."""
        cluster = await self._connection.get(RAY_CLUSTER, name, namespace)
        if address := RayCluster(cluster).dashboard or local_url(cluster):
            return address
        where = text(cluster, "metadata", "namespace")
        routes = [obj for kind in (HTTP_ROUTE, ROUTE) for obj in await self._optional(kind, where)]
        return find_url(cluster, await self._optional(INGRESS, where), routes)

    async def certificate(
        self,
        name: str,
        namespace: str | None = None,
        *,
        folder: Path | None = None,
        timeout: float = CERTIFICATE_SECONDS,
    ) -> ClientCertificate:
        """Make a key on this machine, and get a certificate for it with which Ray's client connects to the cluster.

        Both are written below `folder`, by default the user's data folder; the key never leaves it. The account needs
        the right to patch the cluster. Raises Unsupported where the cluster has no certificates, and WaitTimeout where
        the platform does not answer.
        """
        return await certificate(self._connection, name, namespace, folder, timeout)

    async def create_claim(self, claim: NewClaim, namespace: str | None = None) -> None:
        """Make a PersistentVolumeClaim, for `claim(…)` in a configuration. Raises AlreadyExists."""
        await self._connection.create(CLAIM, claim.manifest(self._connection.resolve_namespace(namespace)))

    async def create_secret(self, secret: NewSecret, namespace: str | None = None) -> None:
        """Make a Secret, for `secret(…)` in a configuration. Raises AlreadyExists."""
        await self._connection.create(SECRET, secret.manifest(self._connection.resolve_namespace(namespace)))

    async def _optional(
        self, kind: Kind, namespace: str | None, everywhere: bool = False, labels: str = ""
    ) -> Sequence[Json]:
        """Return objects that only explain a status; none where the server lacks the kind or the account the right."""
        try:
            return await self._connection.list(kind, namespace, labels=labels, everywhere=everywhere)
        except (Forbidden, Unsupported):
            return []


class Clusters(Sync):
    """Ray clusters of a Kubernetes cluster."""

    manifest = blocking(AsyncClusters.manifest)
    create = blocking(AsyncClusters.create)
    apply = blocking(AsyncClusters.apply)
    dry_run = blocking(AsyncClusters.dry_run)
    get = blocking(AsyncClusters.get)
    save = blocking(AsyncClusters.save)
    list = blocking(AsyncClusters.list)
    status = blocking(AsyncClusters.status)
    wait = blocking(AsyncClusters.wait)
    delete = blocking(AsyncClusters.delete)
    suspend = blocking(AsyncClusters.suspend)
    resume = blocking(AsyncClusters.resume)
    scale = blocking(AsyncClusters.scale)
    dashboard = blocking(AsyncClusters.dashboard)
    certificate = blocking(AsyncClusters.certificate)
    create_claim = blocking(AsyncClusters.create_claim)
    create_secret = blocking(AsyncClusters.create_secret)
