"""A process's way to the cluster, as networks are: slow, and cut before or after a call had its effect."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from random import Random
from typing import TypeVar

from steelyard_common.types import Json
from steelyard_kube.cluster import ObjectList, Patch, Resource, WatchEvent
from steelyard_kube.errors import ApiError, Conflict, Unreachable
from steelyard_kube.memory import MemoryCluster

T = TypeVar("T")
READS = frozenset({"get", "list"})


class Network:
    """Faults between processes and the cluster, and how often they occur; none once `faults` are used up."""

    def __init__(self, rng: Random, faults: int, happened: Counter[str]) -> None:
        self.rng = rng
        self.faults = faults
        self.happened = happened

    def fault(self, name: str, one_in: int) -> bool:
        if self.faults <= 0 or self.rng.randrange(one_in):
            return False
        self.faults -= 1
        self.happened[name] += 1
        return True


class UnreliableCluster:
    """The cluster as one process sees it. `effect` runs each write, so that what it changes can be checked."""

    def __init__(
        self,
        cluster: MemoryCluster,
        network: Network,
        effect: Callable[[Callable[[], None]], None],
        crash: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._network = network
        self._effect = effect
        self._crash = crash
        self.dead = False

    async def _call(self, verb: str, work: Coroutine[object, object, T]) -> T:
        rng = self._network.rng
        rare = 10 if verb == "list" else 1  # each process begins with dozens of them
        try:
            await asyncio.sleep(rng.expovariate(1 / 0.02))
            self._maybe_crash(f"crash before {verb}", 60 * rare)
            self._check_alive()
            if self._network.fault(f"{verb} is refused", 25 * rare):
                raise Unreachable("no answer")
            if verb not in READS and self._network.fault(f"{verb} meets a conflict", 40):
                raise Conflict("somebody wrote it")
        except BaseException:
            work.close()
            raise
        answer = self._finish(work)
        self._maybe_crash(f"crash after {verb}", 60 * rare)
        if self._network.fault(f"answer of {verb} lost", 25 * rare):
            raise Unreachable("the answer was lost")
        await asyncio.sleep(rng.expovariate(1 / 0.02))
        self._check_alive()
        return answer

    def _check_alive(self) -> None:
        """A process that has died does nothing more, also not while its tasks are being cancelled."""
        if self.dead:
            raise Unreachable("the process is gone")

    def _finish(self, work: Coroutine[object, object, T]) -> T:
        """Have the call's effect at once, as one transaction."""
        answers: list[T] = []
        errors: list[ApiError] = []

        def effect() -> None:
            try:
                work.send(None)
            except StopIteration as done:
                answers.append(done.value)
            except ApiError as error:
                errors.append(error)

        self._effect(effect)
        if errors:
            raise errors[0]
        return answers[0]

    def _maybe_crash(self, name: str, one_in: int) -> None:
        if not self.dead and self._network.fault(name, one_in):
            self.dead = True
            self._crash()

    # ---- the protocol

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        return await self._call("get", self._cluster.get(resource, name, namespace))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> ObjectList:
        work = self._cluster.list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )
        return await self._call("list", work)

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[ObjectList]:
        yield await self.list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )

    async def create(self, resource: Resource, obj: Json) -> Json:
        return await self._call("create", self._cluster.create(resource, obj))

    async def replace(self, resource: Resource, obj: Json, *, subresource: str = "") -> Json:
        return await self._call("replace", self._cluster.replace(resource, obj, subresource=subresource))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Patch,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Json:
        work = self._cluster.patch(resource, name, patch, namespace, subresource=subresource)
        return await self._call("patch", work)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> None:
        work = self._cluster.delete(
            resource,
            name,
            namespace,
            uid=uid,
            resource_version=resource_version,
            grace_seconds=grace_seconds,
            propagation=propagation,
        )
        await self._call("delete", work)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int | None = None,
    ) -> AsyncIterator[WatchEvent]:
        events = self._cluster.watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
        )
        async for event in events:
            await asyncio.sleep(self._network.rng.expovariate(1 / 0.2))
            self._check_alive()
            if self._network.fault("watch breaks", 60):
                raise Unreachable("the watch broke")
            yield event

    async def close(self) -> None:
        pass
