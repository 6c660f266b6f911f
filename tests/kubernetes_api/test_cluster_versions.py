"""The cluster client on servers whose definitions are of earlier and of later versions than it knows.

The definitions are the embedded ones with the fields that other releases lack or have added; each server is one of its
own, so that no other test meets them.
"""

import uuid
import warnings
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest

from steelyard.clusters import (
    AsyncClient,
    ClusterConfig,
    ClusterQueueConfig,
    CohortConfig,
    FlavorConfig,
    FlavorQuota,
    GcsFaultTolerance,
    JobConfig,
    LocalQueueConfig,
    Quota,
    QuotaGroup,
)
from steelyard.clusters.appwrappers import AppWrapperConfig
from steelyard.clusters.kinds import APP_WRAPPER, CLUSTER_QUEUE, COHORT, RAY_CLUSTER, RAY_JOB, Kind
from steelyard.clusters.versions import UnknownFieldWarning
from steelyard_common.types import Json
from steelyard_local_kubernetes.definitions.building import ANYTHING, BOOLEAN, INT32, STRING
from steelyard_local_kubernetes.definitions.embedded import list_definitions
from tests.kubernetes_api.api import Api
from tests.kubernetes_api.conftest import CRDS, Server, established

FUTURE = {"fieldOfALaterRelease": STRING, "settingsOfALaterRelease": ANYTHING}


def _spec(version: Json) -> Json:
    properties: Json = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return properties


def _serve(definition: Json, *names: str) -> None:
    """Serve only these versions, the first of them stored; one that is not there is made like the first that is."""
    there = {version["name"]: version for version in definition["spec"]["versions"]}
    base = next(iter(there.values()))
    definition["spec"]["versions"] = [
        {**deepcopy(there.get(name, base)), "name": name, "storage": number == 0}
        for number, name in enumerate(names)
    ]


def older(definition: Json) -> Json:
    """Return a definition as earlier releases have it: KubeRay 1.1, Kueue 0.9, AppWrapper 1.0."""
    definition = deepcopy(definition)
    kind = definition["spec"]["names"]["kind"]
    if kind == "Cohort":
        _serve(definition, "v1alpha1")
    elif definition["spec"]["group"] == "kueue.x-k8s.io":
        _serve(definition, "v1beta1")
    for version in definition["spec"]["versions"]:
        clusters = [_spec(version)] if kind == "RayCluster" else []
        if kind == "RayJob":
            for field in ("backoffLimit", "deletionStrategy", "managedBy", "entrypointNumGpus"):
                del _spec(version)[field]
            clusters = [_spec(version)["rayClusterSpec"]["properties"]]
        for cluster in clusters:
            for field in ("authOptions", "gcsFaultToleranceOptions", "managedBy", "upgradeStrategy"):
                del cluster[field]
            group = cluster["workerGroupSpecs"]["items"]["properties"]
            for field in ("idleTimeoutSeconds", "labels", "resources", "suspend"):
                del group[field]
        if kind == "ClusterQueue":
            del _spec(version)["cohortName"]
        if kind == "AppWrapper":
            _spec(version).pop("managedBy", None)
    return definition


def newer(definition: Json) -> Json:
    """Return a definition as later releases may have it: more fields, and only the newest versions."""
    definition = deepcopy(definition)
    if definition["spec"]["group"] == "kueue.x-k8s.io":
        _serve(definition, "v1", "v1beta2")
    for version in definition["spec"]["versions"]:
        if "spec" not in version["schema"]["openAPIV3Schema"]["properties"]:
            continue
        spec = _spec(version)
        spec |= FUTURE
        if definition["spec"]["names"]["kind"] == "ClusterQueue":
            del spec["cohort"]
        if definition["spec"]["names"]["kind"] == "RayCluster":
            spec["idleSuspend"] = BOOLEAN
            spec["workerGroupSpecs"]["items"]["properties"] |= {"priority": INT32, **FUTURE}
    return definition


@dataclass(frozen=True)
class Release:
    """A server, its administrator's requests, and a client of it."""

    name: str
    api: Api
    client: AsyncClient


RELEASES = {"older": older, "newer": newer}


@pytest.fixture(scope="module", params=RELEASES)
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Server]]:
    server = Server(tmp_path_factory.mktemp(request.param))
    yield request.param, server
    server.stop()


@pytest.fixture
async def release(played: tuple[str, Server]) -> AsyncIterator[Release]:
    name, server = played
    api = Api(server.kubeconfig)
    for definition in map(RELEASES[name], list_definitions()):
        await api.post(CRDS, definition)
        await established(api, definition["metadata"]["name"])
    namespace = f"t-{uuid.uuid4().hex[:12]}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).ok()
    async with AsyncClient(kubeconfig=server.kubeconfig, namespace=namespace) as client:
        yield Release(name, api, client)
    await api.close()


async def with_future_fields(release: Release, kind: Kind, name: str) -> Json:
    """Write fields as a client of a later release does; return the object as it is stored."""
    resource = await release.client.connection.resource(kind)
    namespace = release.client.namespace if kind.namespaced else None
    path = resource.path(namespace, name)
    patch = {"spec": {"fieldOfALaterRelease": "kept", "settingsOfALaterRelease": {"a": [1, {"b": None}]}}}
    return (await release.api.request("PATCH", path, patch, type="application/merge-patch+json")).ok().json


async def test_versions_are_those_that_the_server_has(release: Release) -> None:
    connection = release.client.connection
    versions = {
        kind.name: (await connection.resource(kind)).version for kind in (CLUSTER_QUEUE, COHORT, RAY_CLUSTER)
    }
    queue, cohort = {"older": ("v1beta1", "v1alpha1"), "newer": ("v1beta2", "v1beta2")}[release.name]
    assert versions == {"ClusterQueue": queue, "Cohort": cohort, "RayCluster": "v1"}


async def test_a_cluster_is_made_changed_and_deleted(release: Release) -> None:
    clusters = release.client.ray.clusters
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await clusters.create(ClusterConfig(name="demo", labels={"mine": "x"}))
        await clusters.apply(ClusterConfig(name="demo", labels={"mine": "y"}), force=True)
    stored = await with_future_fields(release, RAY_CLUSTER, "demo")
    kept = stored["spec"].get("fieldOfALaterRelease")
    assert kept == ("kept" if release.name == "newer" else None)

    cluster = await clusters.get("demo")
    cluster.resource["spec"]["workerGroupSpecs"][0]["replicas"] = 0
    await clusters.save(cluster)
    await clusters.scale("demo", 2)
    await clusters.suspend("demo")
    changed = (await clusters.apply(ClusterConfig(name="demo", labels={"mine": "z"}), force=True)).resource
    for field in ("fieldOfALaterRelease", "settingsOfALaterRelease"):
        assert changed["spec"].get(field) == stored["spec"].get(field)
    assert (changed["spec"]["suspend"], changed["metadata"]["labels"]["mine"]) == (True, "z")
    assert [status.name for status in await clusters.list()] == ["demo"]
    await clusters.delete("demo")


async def test_a_state_of_a_later_release_has_a_phase(release: Release) -> None:
    clusters = release.client.ray.clusters
    made = (await clusters.create(ClusterConfig(name="demo"))).resource
    path = f"/apis/ray.io/v1/namespaces/{release.client.namespace}/rayclusters/demo/status"
    (await release.api.request("PUT", path, {**made, "status": {"state": "Hibernating"}})).ok()
    status = await clusters.status("demo")
    assert (status.phase, status.reason) == ("Unknown", "hibernating")


async def test_a_field_that_an_earlier_release_drops_is_reported(release: Release) -> None:
    config = ClusterConfig(name="demo", gcs_fault_tolerance=GcsFaultTolerance(redis_address="redis:6379"))
    if release.name == "older":
        with pytest.warns(UnknownFieldWarning, match=r"does not know spec\.gcsFaultToleranceOptions"):
            await release.client.ray.clusters.create(config)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            await release.client.ray.clusters.create(config)


async def test_a_job_is_made_stopped_and_deleted(release: Release) -> None:
    jobs = release.client.ray.jobs
    await jobs.submit(JobConfig(name="job", entrypoint="true", cluster_config=ClusterConfig(name="own")))
    stored = await with_future_fields(release, RAY_JOB, "job")
    await jobs.stop("job")
    stopped = (await jobs.get("job")).resource
    assert stopped["spec"]["suspend"] is True
    assert stopped["spec"].get("settingsOfALaterRelease") == stored["spec"].get("settingsOfALaterRelease")
    await jobs.delete("job")


async def test_queues_and_cohorts_are_made_changed_and_used(release: Release) -> None:
    client, name = release.client, release.client.namespace
    quotas = {"cpu": Quota(nominal=4)}
    group = QuotaGroup(flavors=(FlavorQuota(flavor=name, quotas=quotas),))
    configs: list[Any] = [
        FlavorConfig(name=name),
        CohortConfig(name=name, groups=(group,)),
        ClusterQueueConfig(name=name, cohort=name, groups=(group,)),
        LocalQueueConfig(name="team", cluster_queue=name, default=True),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for config in configs:
            await client.admin.create(config)
    stored = await with_future_fields(release, CLUSTER_QUEUE, name)
    await client.admin.drain(name)
    (view,) = [view for view in await client.admin.cluster_queues() if view.name == name]
    assert (view.stop_policy, view.cohort) == ("HoldAndDrain", name)
    assert view.resource["spec"].get("fieldOfALaterRelease") == stored["spec"].get("fieldOfALaterRelease")
    assert (await client.admin.cohort(name)).queues == (name,)
    assert (await client.ray.clusters.create(ClusterConfig(name="demo"))).queue == "team"
    assert await client.queues.workloads() == []
    for config in reversed(configs):
        await client.admin.delete(config)


async def test_an_appwrapper_is_made_suspended_and_deleted(release: Release) -> None:
    wrappers = release.client.appwrappers
    await wrappers.create(AppWrapperConfig(name="group", parts=(ClusterConfig(name="part"),)))
    stored = await with_future_fields(release, APP_WRAPPER, "group")
    await wrappers.suspend("group")
    changed = (await wrappers.get("group")).resource
    assert changed["spec"]["suspend"] is True
    assert changed["spec"].get("fieldOfALaterRelease") == stored["spec"].get("fieldOfALaterRelease")
    await wrappers.delete("group")
