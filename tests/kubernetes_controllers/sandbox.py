"""Words of the cases: make an object, report of its Pods what a kubelet would, wait for what a controller writes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from steelyard_common.types import Json
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import Conflict, NotFound
from steelyard_kube.objects import is_deleting, read_labels, read_status
from steelyard_kube.pods import is_terminal
from steelyard_kube.resource import PODS, Resource, find_resource

SECONDS = 120.0
LONG_AGO = "2026-01-01T00:00:00Z"  # so that no back-off is left to wait for
T = TypeVar("T")


async def until(probe: Callable[[], Awaitable[T]], what: str = "", seconds: float = SECONDS) -> T:
    """Return the first answer that is something."""
    answer = None
    try:
        async with asyncio.timeout(seconds):
            while not (answer := await probe()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {what}; {answer!r}") from None
    return answer


@dataclass(frozen=True)
class Sandbox:
    """A namespace on a server, with somebody's controllers."""

    cluster: Cluster
    namespace: str

    async def create(self, obj: Json) -> Json:
        metadata = {**obj["metadata"], "namespace": self.namespace}
        return await self.cluster.create(find_resource(obj), {**obj, "metadata": metadata})

    async def get(self, resource: Resource, name: str) -> Json:
        return await self.cluster.get(resource, name, self.namespace)

    async def patch(self, resource: Resource, name: str, patch: Json) -> Json:
        return await self.cluster.patch(resource, name, patch, self.namespace)

    async def delete(self, resource: Resource, name: str) -> None:
        await self.cluster.delete(resource, name, self.namespace, propagation="Background")

    async def all(self, resource: Resource) -> list[Json]:
        objects = (await self.cluster.list(resource, self.namespace)).items
        return sorted(objects, key=lambda obj: str(obj["metadata"]["name"]))

    async def names(self, resource: Resource) -> list[str]:
        return [obj["metadata"]["name"] for obj in await self.all(resource)]

    async def active(self) -> list[Json]:
        """Pods that have not ended and are not being deleted."""
        return [pod for pod in await self.all(PODS) if not is_terminal(pod) and not is_deleting(pod)]

    async def pods(self, count: int) -> list[Json]:
        """The active Pods once there are so many."""

        async def probe() -> list[Json] | None:
            pods = await self.active()
            return pods if len(pods) == count else None

        if count:
            return await until(probe, f"{count} Pods") or []
        await until(self.no_pods, "no Pods")
        return []

    async def no_pods(self) -> bool:
        return not await self.active()

    async def gone(self, resource: Resource, name: str, seconds: float = SECONDS) -> None:
        async def probe() -> bool:
            return name not in await self.names(resource)

        await until(probe, f"{resource.kind} {name} gone", seconds)

    async def status(self, resource: Resource, name: str, **wanted: Any) -> Json:
        """The status once it has these fields; None stands for a field that is not there."""
        seen: Json = {}

        async def probe() -> bool:
            nonlocal seen
            seen = read_status(await self.get(resource, name))
            return all(seen.get(key) == value for key, value in wanted.items())

        try:
            await until(probe)
        except AssertionError:
            raise AssertionError(f"{resource.kind} {name}: {wanted} is not in {seen}") from None
        return seen

    async def condition(self, resource: Resource, name: str, kind: str, status: str = "True") -> Json:
        """The status once a condition has this status."""
        seen: Json = {}

        async def probe() -> bool:
            nonlocal seen
            seen = read_status(await self.get(resource, name))
            return any(
                (said["type"], said["status"]) == (kind, status) for said in seen.get("conditions") or ()
            )

        try:
            await until(probe)
        except AssertionError:
            raise AssertionError(f"{resource.kind} {name}: {kind} is not {status} in {seen}") from None
        return seen

    async def report(self, pod: Json, status: Json) -> None:
        """Write a Pod's status, as its kubelet does, which tries again after a conflict; one that is gone has none."""
        name = pod["metadata"]["name"]

        async def write() -> bool:
            try:
                await self.cluster.patch(PODS, name, {"status": status}, self.namespace, subresource="status")
            except NotFound:
                return True
            except Conflict:
                return False
            return True

        await until(write, f"the status of Pod {name}")

    async def run(self, pod: Json, *, ip: str = "", ready: bool = True, since: str = LONG_AGO) -> None:
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
        addresses = {"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {}
        await self.report(pod, {"phase": "Running", "conditions": [condition], **addresses})

    async def run_all(self, count: int) -> list[Json]:
        """Report every active Pod as running and ready, once there are so many."""
        pods = await self.pods(count)
        for pod in pods:
            await self.run(pod)
        return pods

    async def end(self, pod: Json, code: int = 0) -> None:
        terminated = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": LONG_AGO}
        container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
        status = {"containerStatuses": [{**container, "state": {"terminated": terminated}}]}
        await self.report(pod, {"phase": "Failed" if code else "Succeeded", **status})


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make(api_version: str, kind: str, name: str, **spec: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def template(restart: str = "Always", image: str = "x", app: str = "web", **spec: Any) -> Json:
    container = {"name": "main", "image": image, "ports": [{"name": "http", "containerPort": 8000}]}
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"restartPolicy": restart, "containers": [container], **spec},
    }


def make_job(name: str = "demo", **spec: Any) -> Json:
    return make("batch/v1", "Job", name, **{"backoffLimit": 0, "template": template("Never"), **spec})


def make_set(kind: str, name: str = "web", **spec: Any) -> Json:
    """A Deployment, ReplicaSet or StatefulSet."""
    selector = {"matchLabels": {"app": "web"}}
    return make("apps/v1", kind, name, **{"selector": selector, "template": template(), **spec})


def conditions(status: Json) -> list[tuple[str, str, str]]:
    """The true conditions, with their reasons."""
    return [(said["type"], said["status"], said.get("reason", "")) for said in status.get("conditions") or ()]


def index_of(pod: Json) -> str:
    return str(read_labels(pod).get("batch.kubernetes.io/job-completion-index", ""))
