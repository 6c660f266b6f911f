"""AppWrappers: groups of objects that are admitted, started, and started again as one."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from steelyard.clusters.appwrappers.status import AppWrapperStatus, app_wrapper_status
from steelyard.clusters.appwrappers.wrapping import AppWrapperConfig, FaultTolerance, app_wrapper
from steelyard.clusters.blocking import Sync, blocking
from steelyard.clusters.connection import Connection
from steelyard.clusters.errors import Forbidden, Right
from steelyard.clusters.kinds import APP_WRAPPER
from steelyard.clusters.queues.activation import set_active
from steelyard.clusters.queues.choice import choose_queue
from steelyard.clusters.ray.config import ClusterConfig
from steelyard.clusters.ray.manifest import ray_cluster
from steelyard.clusters.ray.plan import Plan, dry_run
from steelyard.clusters.waiting import POLL_SECONDS, wait_for
from steelyard_common.types import Json

__all__ = ["AppWrapperConfig", "AppWrapperStatus", "AppWrappers", "AsyncAppWrappers", "FaultTolerance"]


_NOT_AUTHORIZED = re.compile(r"is not authorized to create (\S+) in ([^\s,\]]+)")


class AsyncAppWrappers:
    """AppWrappers of a cluster: groups of objects that run as one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def manifest(self, config: AppWrapperConfig) -> Json:
        """Return the AppWrapper of a configuration. It names the queue; its parts do not. Raises BadConfig."""
        namespace = self._connection.resolve_namespace(config.namespace)
        queue = await choose_queue(self._connection, config.queue, config.queue_policy, namespace)
        return app_wrapper(config, [_part(part, namespace) for part in config.parts], namespace, queue)

    async def create(self, config: AppWrapperConfig) -> AppWrapperStatus:
        """Make a new AppWrapper. Raises AlreadyExists, BadConfig."""
        manifest = await self.manifest(config)
        with _rights_of_parts(manifest):
            return app_wrapper_status(await self._connection.create(APP_WRAPPER, manifest))

    async def apply(self, config: AppWrapperConfig, *, force: bool = False) -> AppWrapperStatus:
        """Make or change the AppWrapper by server-side apply. Raises Conflict, unless `force`."""
        manifest = await self.manifest(config)
        with _rights_of_parts(manifest):
            return app_wrapper_status(await self._connection.apply(APP_WRAPPER, manifest, force=force))

    async def dry_run(self, config: AppWrapperConfig) -> Plan:
        """Return what `apply` would send and change; the API server checks it, and keeps nothing."""
        manifest = await self.manifest(config)
        with _rights_of_parts(manifest):
            return await dry_run(self._connection, APP_WRAPPER, manifest)

    async def get(self, name: str, namespace: str | None = None) -> AppWrapperStatus:
        """Return the AppWrapper with its status. Raises NotFound."""
        return app_wrapper_status(await self._connection.get(APP_WRAPPER, name, namespace))

    async def list(
        self, namespace: str | None = None, *, everywhere: bool = False
    ) -> Sequence[AppWrapperStatus]:
        """Return all AppWrappers by name."""
        objects = await self._connection.list(APP_WRAPPER, namespace, everywhere=everywhere)
        return sorted(map(app_wrapper_status, objects), key=lambda status: (status.namespace, status.name))

    async def wait(
        self,
        name: str,
        namespace: str | None = None,
        *,
        until: str = "Running",
        timeout: float | None = None,
        poll: float = POLL_SECONDS,
        on_change: Callable[[AppWrapperStatus], None] | None = None,
    ) -> AppWrapperStatus:
        """Return the status when the phase is `until` (Running or Succeeded).

        `timeout` and `poll` are seconds; without a timeout it waits for ever. `on_change` is called with each new
        status before that. Raises Failed, WaitTimeout, NotFound.
        """
        return await wait_for(
            lambda: self.get(name, namespace),
            done=lambda status: status.phase in (until, "Succeeded"),
            stuck=lambda status: False,
            failed=lambda status: status.phase == "Failed",
            timeout=timeout,
            poll=poll,
            on_change=on_change,
        )

    async def suspend(self, name: str, namespace: str | None = None) -> AppWrapperStatus:
        """Delete the parts; `resume` makes them again."""
        return await self._suspend(name, namespace, True)

    async def resume(self, name: str, namespace: str | None = None) -> AppWrapperStatus:
        """Make the parts of a suspended AppWrapper again."""
        return await self._suspend(name, namespace, False)

    async def delete(self, name: str, namespace: str | None = None) -> None:
        """Delete the AppWrapper and its parts. Raises NotFound."""
        await self._connection.delete(APP_WRAPPER, name, namespace)

    async def _suspend(self, name: str, namespace: str | None, suspend: bool) -> AppWrapperStatus:
        wrapper = await self._connection.get(APP_WRAPPER, name, namespace)
        if await set_active(self._connection, wrapper, not suspend):
            return await self.get(name, namespace)
        patch: Json = {"spec": {"suspend": suspend}}
        return app_wrapper_status(await self._connection.patch(APP_WRAPPER, name, patch, namespace))


class AppWrappers(Sync):
    """AppWrappers of a cluster: groups of objects that run as one."""

    manifest = blocking(AsyncAppWrappers.manifest)
    create = blocking(AsyncAppWrappers.create)
    apply = blocking(AsyncAppWrappers.apply)
    dry_run = blocking(AsyncAppWrappers.dry_run)
    get = blocking(AsyncAppWrappers.get)
    list = blocking(AsyncAppWrappers.list)
    wait = blocking(AsyncAppWrappers.wait)
    suspend = blocking(AsyncAppWrappers.suspend)
    resume = blocking(AsyncAppWrappers.resume)
    delete = blocking(AsyncAppWrappers.delete)


@contextmanager
def _rights_of_parts(manifest: Json) -> Iterator[None]:
    """Name the right that the account lacks for a part: AppWrapper's webhook says it without the part's API group."""
    try:
        yield
    except Forbidden as error:
        lacking = _NOT_AUTHORIZED.search(str(error))
        if error.right is not None or lacking is None:
            raise
        resource, namespace = lacking.groups()
        for component in manifest["spec"]["components"]:
            part = component["template"]
            # A plural and its kind begin alike: jobs, ingresses, networkpolicies.
            if resource.startswith(part["kind"].lower()[:-1]):
                group = part["apiVersion"].rpartition("/")[0]
                right = Right("create", resource, group, namespace)
                raise Forbidden(f"missing right: {right} ({error})", right) from error
        raise


def _part(part: ClusterConfig | Json, namespace: str) -> Json:
    # Only the AppWrapper has the queue's label: a part with it would wait for an admission of its own.
    return ray_cluster(part, namespace, None) if isinstance(part, ClusterConfig) else part
