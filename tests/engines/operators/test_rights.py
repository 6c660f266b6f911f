"""Rights: each call of the client works with them, and without them says which one is missing.

A user begins without any right. What an error names, and nothing else, is granted; then the call has to work.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.clusters import (
    AppWrapperConfig,
    AsyncClient,
    FlavorConfig,
    JobConfig,
    LocalQueueConfig,
    NewClaim,
    NewSecret,
    Right,
    errors,
)
from steelyard_common.types import Json
from tests.engines.operators.making import Queues, cluster, job_part, until
from tests.kubernetes_api.api import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
OF_CLUSTER = {
    *("clusterqueues", "resourceflavors", "workloadpriorityclasses", "cohorts"),
}
"""Resources without a namespace: no Role gives a right to them."""
Call = Callable[[AsyncClient], Awaitable[Any]]


async def logs(client: AsyncClient) -> list[str]:
    return [line async for line in client.ray.jobs.logs("there")]


def wrapper(name: str) -> AppWrapperConfig:
    return AppWrapperConfig(name=name, parts=(job_part(name, "1"),), queue_policy="off")


def job(name: str, **values: Any) -> JobConfig:
    return JobConfig(name=name, entrypoint="x", cluster_config=cluster("own"), queue_policy="off", **values)


async def save(client: AsyncClient) -> Any:
    while True:
        try:
            return await client.ray.clusters.save(await client.ray.clusters.get("there"))
        except errors.Conflict:
            continue


CALLS: dict[str, Call] = {
    "clusters.create": lambda c: c.ray.clusters.create(cluster("new", queue="team")),
    "clusters.apply": lambda c: c.ray.clusters.apply(cluster("applied", queue_policy="off")),
    "clusters.dry_run": lambda c: c.ray.clusters.dry_run(cluster("there", queue_policy="off")),
    "clusters.get": lambda c: c.ray.clusters.get("there"),
    "clusters.save": save,
    "clusters.list": lambda c: c.ray.clusters.list(),
    "clusters.status": lambda c: c.ray.clusters.status("there"),
    "clusters.dashboard": lambda c: c.ray.clusters.dashboard("there"),
    "clusters.scale": lambda c: c.ray.clusters.scale("there", 2),
    "clusters.suspend": lambda c: c.ray.clusters.suspend("there"),
    "clusters.resume": lambda c: c.ray.clusters.resume("there"),
    "clusters.create_claim": lambda c: c.ray.clusters.create_claim(NewClaim(name="data", size="1Gi")),
    "clusters.create_secret": lambda c: c.ray.clusters.create_secret(
        NewSecret(name="password", values={"key": "x"})
    ),
    "jobs.submit": lambda c: c.ray.jobs.submit(job("new", working_dir=Path(__file__).parent / "go")),
    "jobs.submit on a cluster": lambda c: c.ray.jobs.submit(
        JobConfig(name="on", entrypoint="x", cluster="there")
    ),
    "jobs.get": lambda c: c.ray.jobs.get("there"),
    "jobs.list": lambda c: c.ray.jobs.list(),
    "jobs.status": lambda c: c.ray.jobs.status("there"),
    "jobs.logs": logs,
    "jobs.stop": lambda c: c.ray.jobs.stop("there"),
    "jobs.resubmit": lambda c: c.ray.jobs.resubmit("there", new_name="again"),
    "appwrappers.create": lambda c: c.appwrappers.create(wrapper("new")),
    "appwrappers.apply": lambda c: c.appwrappers.apply(wrapper("applied")),
    "appwrappers.dry_run": lambda c: c.appwrappers.dry_run(wrapper("dry")),
    "appwrappers.get": lambda c: c.appwrappers.get("there"),
    "appwrappers.list": lambda c: c.appwrappers.list(),
    "appwrappers.suspend": lambda c: c.appwrappers.suspend("there"),
    "appwrappers.resume": lambda c: c.appwrappers.resume("there"),
    "queues.list": lambda c: c.queues.list(),
    "queues.get": lambda c: c.queues.get("team"),
    "queues.workloads": lambda c: c.queues.workloads(),
    "queues.place": lambda c: c.queues.place("queued"),
    "admin.create": lambda c: c.admin.create(FlavorConfig(name=f"new-{c.namespace}")),
    "admin.apply": lambda c: c.admin.apply(LocalQueueConfig(name="own", cluster_queue=f"pool-{c.namespace}")),
    "admin.flavors": lambda c: c.admin.flavors(),
    "admin.priority_classes": lambda c: c.admin.priority_classes(),
    "admin.cluster_queues": lambda c: c.admin.cluster_queues(),
    "admin.local_queues": lambda c: c.admin.local_queues(),
    "admin.cohorts": lambda c: c.admin.cohorts(),
    "admin.cohort": lambda c: c.admin.cohort(f"cohort-{c.namespace}"),
    "admin.usage": lambda c: c.admin.usage(),
    "admin.drain": lambda c: c.admin.drain(f"pool-{c.namespace}"),
    "admin.resume": lambda c: c.admin.resume(f"pool-{c.namespace}"),
    "admin.delete": lambda c: c.admin.delete(FlavorConfig(name=f"new-{c.namespace}")),
    "jobs.delete": lambda c: c.ray.jobs.delete("there"),
    "appwrappers.delete": lambda c: c.appwrappers.delete("there"),
    "clusters.delete": lambda c: c.ray.clusters.delete("there"),
}


class User:
    """An account of a namespace without rights, and a client that logs in as it."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._rules: dict[str, list[Json]] = {"roles": [], "clusterroles": []}

    async def make(self) -> str:
        """Make the account; return its token."""
        accounts = f"/api/v1/namespaces/{self._namespace}/serviceaccounts"
        (await self._api.post(accounts, {"metadata": {"name": "user"}})).ok()
        for kind, name in (("roles", "Role"), ("clusterroles", "ClusterRole")):
            await self._write(kind, name)
            bindings, path = f"{name}Binding", self._path(kind.replace("roles", "rolebindings"))
            subject = {"kind": "ServiceAccount", "name": "user", "namespace": self._namespace}
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": name, "name": self._namespace}
            body = {"kind": bindings, "metadata": {"name": self._namespace}, "roleRef": role}
            (await self._api.post(path, {**body, "subjects": [subject]})).ok()
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = (await self._api.post(f"{accounts}/user/token", request)).ok()
        return str(answer.json["status"]["token"])

    async def grant(self, right: Right) -> None:
        """Grant what an error names, in the namespace or, where it names none, in the cluster."""
        kind, name = ("roles", "Role") if right.namespace else ("clusterroles", "ClusterRole")
        self._rules[kind].append(right.rule)
        await self._write(kind, name)

    async def remove(self) -> None:
        for kind in ("clusterroles", "clusterrolebindings"):
            await self._api.delete(f"{self._path(kind)}/{self._namespace}")

    async def _write(self, kind: str, name: str) -> None:
        body = {"kind": name, "metadata": {"name": self._namespace}, "rules": self._rules[kind]}
        path = self._path(kind)
        made = await self._api.post(path, body)
        if made.status == 409:
            made = await self._api.put(f"{path}/{self._namespace}", body)
        made.ok()

    def _path(self, kind: str) -> str:
        return (
            f"{RBAC}/{kind}" if kind.startswith("cluster") else f"{RBAC}/namespaces/{self._namespace}/{kind}"
        )


@pytest.fixture
async def made(client: AsyncClient, queues: Queues, namespace: str) -> None:
    """Objects that the calls are about."""
    await queues.make(cohort=f"cohort-{namespace}")
    await client.ray.clusters.create(cluster("there", queue_policy="off"))
    await client.ray.clusters.create(cluster("queued", queue="team"))
    await client.ray.jobs.submit(job("there"))
    await client.appwrappers.create(wrapper("there"))
    await until(
        client.queues.workloads,
        lambda views: [view.owner for view in views] == ["RayCluster/queued"],
    )


async def test_every_call_works_or_names_the_right_that_is_missing(
    api: Api, kubeconfig: Path, namespace: str, made: None
) -> None:
    user = User(api, namespace)
    token = await user.make()
    needed: dict[str, list[str]] = {}
    try:
        async with AsyncClient(kubeconfig=kubeconfig, token=token, namespace=namespace) as client:
            for name, call in CALLS.items():
                needed[name] = await _granted(user, client, call, namespace)
    finally:
        await user.remove()
    print("\n".join(f"{name}: {', '.join(rights) or 'nothing more'}" for name, rights in needed.items()))
    assert needed["clusters.create"], "a user without rights cannot begin"


async def _granted(user: User, client: AsyncClient, call: Call, namespace: str) -> list[str]:
    """Call until it works; the rights that it lacked, each is granted as it is named."""
    granted: list[str] = []
    for _ in range(100):
        right = await _missing(call(client))
        if right is None:
            return granted
        # `admin.local_queues` alone reads a kind of namespaces in all of them.
        assert right.namespace == ("" if right.resource in OF_CLUSTER or not right.namespace else namespace)
        if str(right) not in granted:
            granted.append(str(right))
            await user.grant(right)
        else:
            await asyncio.sleep(0.1)  # a server learns of a grant by a watch
    raise AssertionError(f"what is named does not suffice: {granted}")


async def _missing(call: Awaitable[Any]) -> Right | None:
    try:
        await call
    except errors.Forbidden as error:
        if error.right is None:
            raise
        return error.right
    return None


def test_each_call_of_the_client_is_among_them() -> None:
    from steelyard.clusters.admin import Admin
    from steelyard.clusters.appwrappers import AppWrappers
    from steelyard.clusters.queues import Queues as QueuesGroup
    from steelyard.clusters.ray.clusters import Clusters
    from steelyard.clusters.ray.jobs import Jobs

    groups = {
        "clusters": Clusters,
        "jobs": Jobs,
        "appwrappers": AppWrappers,
        "queues": QueuesGroup,
        "admin": Admin,
    }
    public = {
        f"{name}.{method}" for name, group in groups.items() for method in vars(group) if method[0] != "_"
    }
    # `wait` reads what `status` reads, `manifest` what `create` reads; `on` asks Ray, and `certificate` the platform.
    others = ("wait", "manifest", "on", "certificate")
    unlisted = {word for word in public if word.rpartition(".")[2] in others}
    assert public - unlisted == {name.partition(" ")[0] for name in CALLS}
