"""The cluster client on an API server: server-side apply, dry runs, discovery, rights, objects of other versions."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steelyard.clusters import (
    AsyncClient,
    Autoscaling,
    BadConfig,
    Client,
    ClusterConfig,
    ClusterQueueConfig,
    CohortConfig,
    FlavorConfig,
    FlavorQuota,
    JobConfig,
    LocalQueueConfig,
    Quota,
    QuotaGroup,
    WorkerGroup,
    errors,
)
from steelyard.clusters.appwrappers import AppWrapperConfig, FaultTolerance
from steelyard.clusters.kinds import LOCAL_QUEUE, RAY_CLUSTER
from steelyard_kube.client import RestCluster
from steelyard_local_kubernetes.definitions.embedded import list_definitions
from tests.kubernetes_api.api import Api
from tests.kubernetes_api.conftest import CRDS, established

DEMO = ClusterConfig(name="demo")


@pytest.fixture
async def kinds(api: Api) -> None:
    """The kinds of Ray, AppWrapper and Kueue."""
    for definition in list_definitions():
        await api.post(CRDS, definition)
        await established(api, definition["metadata"]["name"])


@pytest.fixture
async def client(kubeconfig: Path, namespace: str, kinds: None) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(kubeconfig=kubeconfig, namespace=namespace) as client:
        yield client


async def test_defect_1_another_managers_field_is_a_conflict_and_force_takes_it(
    client: AsyncClient, api: Api, namespace: str
) -> None:
    await client.ray.clusters.apply(DEMO)
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/demo"
    other = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": {"rayVersion": "9.9.9"}}
    (
        await api.request(
            "PATCH", f"{path}?fieldManager=other&force=true", other, type="application/apply-patch+yaml"
        )
    ).ok()
    with pytest.raises(errors.Conflict, match="other"):
        await client.ray.clusters.apply(DEMO)
    made = await client.ray.clusters.apply(DEMO, force=True)
    assert made.resource["spec"]["rayVersion"] == DEMO.ray_version


async def test_what_this_client_has_set_by_other_calls_is_no_conflict_and_what_others_have_set_is(
    client: AsyncClient, api: Api, namespace: str
) -> None:
    clusters, two = client.ray.clusters, ClusterConfig(name="demo", workers=(WorkerGroup(replicas=2),))
    await clusters.create(DEMO)
    assert (await clusters.apply(two)).groups == {"workers": 2}
    await clusters.scale("demo", 3)
    assert (await clusters.apply(two)).groups == {"workers": 2}
    cluster = await clusters.get("demo")
    cluster.resource["spec"]["rayVersion"] = "9.9.9"
    await clusters.save(cluster)
    assert (await clusters.apply(two)).resource["spec"]["rayVersion"] == two.ray_version
    await clusters.scale("demo", 3)
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/demo"
    patch = {"spec": {"rayVersion": "9.9.9"}}
    (
        await api.request("PATCH", f"{path}?fieldManager=other", patch, type="application/merge-patch+json")
    ).ok()
    with pytest.raises(errors.Conflict, match="other"):
        await clusters.apply(two)
    assert (await clusters.get("demo")).groups == {"workers": 3}


async def test_what_the_autoscaler_has_written_is_no_conflict_and_stays(
    client: AsyncClient, api: Api, namespace: str
) -> None:
    clusters = client.ray.clusters
    workers = (
        WorkerGroup(min_replicas=1, max_replicas=4),
        WorkerGroup(name="fixed", replicas=1, max_replicas=2),
    )
    config = ClusterConfig(name="demo", autoscaling=Autoscaling(), workers=workers)
    await clusters.apply(config)
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/demo?fieldManager=python-requests"
    chosen = {"workersToDelete": ["a"]}
    written = {"replicas": 3, "scaleStrategy": chosen}
    first = "/spec/workerGroupSpecs/0"
    patch = [{"op": "add", "path": f"{first}/{field}", "value": value} for field, value in written.items()]
    (await api.request("PATCH", path, patch, type="application/json-patch+json")).ok()
    newer = config.model_copy(update={"ray_version": "2.60.0"})
    assert {change.field for change in (await clusters.dry_run(newer)).changes} >= {"spec.rayVersion"}
    for force in (False, True):
        applied = await clusters.apply(newer, force=force)
        assert applied.groups == {"workers": 3, "fixed": 1}
        assert applied.resource["spec"]["workerGroupSpecs"][0]["scaleStrategy"] == chosen
    (await api.request("PATCH", path, patch, type="application/json-patch+json")).ok()
    fewer = (WorkerGroup(min_replicas=1, max_replicas=2), workers[1])
    assert (await clusters.apply(config.model_copy(update={"workers": fewer}))).groups["workers"] == 2


async def test_a_dry_run_keeps_nothing_and_shows_what_would_change(client: AsyncClient) -> None:
    assert (await client.ray.clusters.dry_run(DEMO)).new
    assert await client.ray.clusters.list() == []
    await client.ray.clusters.apply(DEMO)
    assert (await client.ray.clusters.dry_run(DEMO)).changes == ()
    plan = await client.ray.clusters.dry_run(ClusterConfig(name="demo", workers=(WorkerGroup(replicas=3),)))
    assert {change.field for change in plan.changes} == {
        f"spec.workerGroupSpecs[0].{field}" for field in ("replicas", "minReplicas", "maxReplicas")
    }


async def test_what_others_have_set_stays_when_it_is_applied_again(client: AsyncClient) -> None:
    await client.ray.clusters.apply(DEMO)
    cluster = await client.ray.clusters.get("demo")
    cluster.resource["metadata"]["annotations"] = {"others": "own"}
    cluster.resource["spec"]["suspend"] = True
    await client.ray.clusters.save(cluster)
    again = await client.ray.clusters.apply(DEMO)
    assert again.annotations["others"] == "own"
    assert again.resource["spec"]["suspend"] is True


async def test_queues_are_made_found_and_used(client: AsyncClient, namespace: str) -> None:
    flavor = FlavorConfig(name=f"f-{namespace}")
    pool = ClusterQueueConfig(
        name=f"pool-{namespace}",
        cohort="all",
        groups=(QuotaGroup(flavors=(FlavorQuota(flavor=flavor.name, quotas={"cpu": Quota(nominal=4)}),)),),
    )
    queue = LocalQueueConfig(name="team", cluster_queue=pool.name, default=True)
    for config in (flavor, pool, queue):
        await client.admin.create(config)
    assert [view.name for view in await client.queues.list()] == ["team"]
    assert (await client.connection.resource(LOCAL_QUEUE)).version == "v1beta2"
    assert pool.name in (await client.admin.cohort("all")).queues
    cohort = CohortConfig(name=f"cohort-{namespace}", parent="all")
    await client.admin.create(cohort)
    assert (await client.admin.cohort(cohort.name)).parent == "all"
    assert cohort.name in (await client.admin.cohort("all")).cohorts
    await client.admin.delete(cohort)
    assert "0 of 4" in "\n".join(map(str, await client.admin.usage()))
    await client.admin.drain(pool.name)
    views = {view.name: view for view in await client.admin.cluster_queues()}
    assert views[pool.name].stop_policy == "HoldAndDrain"
    assert (await client.ray.clusters.create(DEMO)).queue == "team"
    with pytest.raises(BadConfig, match="no such queue"):
        await client.ray.clusters.create(ClusterConfig(name="other", queue="missing"))
    wrapper = AppWrapperConfig(
        name="group", parts=(ClusterConfig(name="part"),), fault_tolerance=FaultTolerance(retry_limit=2)
    )
    assert (await client.appwrappers.create(wrapper)).queue == "team"
    assert (await client.appwrappers.apply(wrapper)).phase == "Suspended"


async def test_a_job_and_its_files_are_made_and_go(
    client: AsyncClient, api: Api, core: str, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text("print(1)")
    job = JobConfig(name="job", entrypoint="python main.py", cluster_config=DEMO, working_dir=tmp_path)
    made = await client.ray.jobs.submit(job)
    secret = (await api.get(f"{core}/secrets/job-files-000")).ok().json
    assert secret["metadata"]["ownerReferences"][0]["uid"] == made.resource["metadata"]["uid"]
    assert [status.name for status in await client.ray.jobs.list()] == ["job"]
    await client.ray.jobs.delete("job")


async def test_a_namespace_that_is_not_there_is_reported(client: AsyncClient) -> None:
    with pytest.raises(errors.NotFound, match="nowhere"):
        await client.ray.clusters.create(ClusterConfig(name="demo", namespace="nowhere"))


async def test_a_user_without_rights_learns_which_one_is_missing(
    kubeconfig: Path, api: Api, cluster: RestCluster, namespace: str, kinds: None
) -> None:
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    (await api.post(account, {"metadata": {"name": "user"}})).ok()
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await api.post(f"{account}/user/token", request)).ok().json["status"]["token"]
    async with AsyncClient(kubeconfig=kubeconfig, token=token, namespace=namespace) as client:
        with pytest.raises(errors.Forbidden) as raised:
            await client.ray.clusters.list()
    assert str(raised.value).startswith(f"missing right: list rayclusters.ray.io in namespace {namespace}")
    async with AsyncClient(kubeconfig=kubeconfig, token="wrong", namespace=namespace) as client:
        with pytest.raises(errors.Unauthenticated):
            await client.ray.clusters.list()


async def test_a_list_of_more_than_a_page_is_one_request(
    client: AsyncClient, api: Api, namespace: str
) -> None:
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters"
    manifest = await client.ray.clusters.manifest(DEMO)

    async def make(number: int) -> None:
        named = {**manifest, "metadata": {"name": f"c-{number:04}", "namespace": namespace}}
        (await api.post(path, named)).ok()

    for start in range(0, 510, 30):
        await asyncio.gather(*(make(start + number) for number in range(30)))
    pages = [
        page async for page in client.connection.api.pages(await client.connection.resource(RAY_CLUSTER))
    ]
    assert len(pages) == 1
    assert len(await client.ray.clusters.list()) == 510


async def test_the_sync_client_does_the_same(kubeconfig: Path, namespace: str, kinds: None) -> None:
    def work() -> list[str]:
        with Client(kubeconfig=kubeconfig, namespace=namespace) as client:
            client.ray.clusters.apply(DEMO)
            return [status.name for status in client.ray.clusters.list()]

    assert await asyncio.to_thread(work) == ["demo"]


async def test_an_app_wrapper_makes_nothing_that_its_author_may_not_make(
    embedded: object, kubeconfig: Path, api: Api, namespace: str, kinds: None
) -> None:
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    (await api.post(account, {"metadata": {"name": "user"}})).ok()
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await api.post(f"{account}/user/token", request)).ok().json["status"]["token"]
    rules = [{"apiGroups": ["workload.codeflare.dev"], "resources": ["appwrappers"], "verbs": ["*"]}]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    (await api.post(f"{rbac}/roles", {"metadata": {"name": "wrap"}, "rules": rules})).ok()
    subject = {"kind": "ServiceAccount", "name": "user", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "wrap"}
    binding = {"metadata": {"name": "wrap"}, "subjects": [subject], "roleRef": role}
    (await api.post(f"{rbac}/rolebindings", binding)).ok()
    wrapper = AppWrapperConfig(name="group", parts=(ClusterConfig(name="part"),), queue_policy="off")
    async with AsyncClient(kubeconfig=kubeconfig, token=token, namespace=namespace) as client:
        with pytest.raises(errors.Forbidden) as raised:
            await client.appwrappers.create(wrapper)
    assert str(raised.value.right) == f"create rayclusters.ray.io in namespace {namespace}"
