"""The clients: one cluster, one login, one namespace for calls that name none; sync and async."""

from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from steelyard.clusters.blocking import LoopThread
from steelyard.clusters.connection import Api, Connection
from steelyard.clusters.login import Target, Token

if TYPE_CHECKING:  # each group is imported when it is first used: an import of the client stays cheap
    from steelyard.clusters.admin import Admin, AsyncAdmin
    from steelyard.clusters.appwrappers import AppWrappers, AsyncAppWrappers
    from steelyard.clusters.queues import AsyncQueues, Queues
    from steelyard.clusters.ray.groups import AsyncRay, Ray
    from steelyard.clusters.training_jobs import AsyncTraining, Training
    from steelyard_kube.exec_login import Login


class AsyncClient:
    """A cluster, from asyncio: the groups and methods of `Client`, awaited; `async for` follows logs."""

    def __init__(  # noqa: PLR0913  # the ways to name a cluster
        self,
        *,
        context: str | None = None,
        kubeconfig: Path | str | None = None,
        server: str | None = None,
        token: Token | None = None,
        in_cluster: bool = False,
        login: "Login | None" = None,
        ca_file: Path | str | None = None,
        verify_tls: bool = True,
        namespace: str | None = None,
        api: Api | None = None,
    ) -> None:
        own = ""
        if api is None:
            target = Target(context, kubeconfig, server, token, in_cluster, login, ca_file, verify_tls)
            api, own = target.open()
        self.connection = Connection(api, namespace or own or "default")

    @cached_property
    def ray(self) -> "AsyncRay":
        """Ray clusters and Ray jobs."""
        from steelyard.clusters.ray.groups import AsyncRay

        return AsyncRay(self.connection)

    @cached_property
    def queues(self) -> "AsyncQueues":
        """Queues of Kueue and what waits in them."""
        from steelyard.clusters.queues import AsyncQueues

        return AsyncQueues(self.connection)

    @cached_property
    def appwrappers(self) -> "AsyncAppWrappers":
        """Groups of objects that run as one."""
        from steelyard.clusters.appwrappers import AsyncAppWrappers

        return AsyncAppWrappers(self.connection)

    @cached_property
    def admin(self) -> "AsyncAdmin":
        """Administration of queues."""
        from steelyard.clusters.admin import AsyncAdmin

        return AsyncAdmin(self.connection)

    @cached_property
    def training(self) -> "AsyncTraining":
        """Training jobs."""
        from steelyard.clusters.training_jobs import AsyncTraining

        return AsyncTraining(self.connection)

    @property
    def namespace(self) -> str:
        """Namespace of calls that name none."""
        return self.connection.namespace

    async def close(self) -> None:
        """Close the connections."""
        await self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class Client:
    """A cluster, from Python: `Client(context="team").ray.clusters.create(…)`.

    Without arguments it is the cluster that kubectl would use. `context` and `kubeconfig` name another; `server` with
    `token` (a text, a function that returns the current one, or the path of a file that is renewed) or `login` needs
    no file; `in_cluster` is the account of this Pod. `namespace` is that of calls that name none; default: that of the
    context. Nothing is shared between clients: several may be used at once. Raises NotConfigured.
    """

    def __init__(  # noqa: PLR0913  # the ways to name a cluster
        self,
        *,
        context: str | None = None,
        kubeconfig: Path | str | None = None,
        server: str | None = None,
        token: Token | None = None,
        in_cluster: bool = False,
        login: "Login | None" = None,
        ca_file: Path | str | None = None,
        verify_tls: bool = True,
        namespace: str | None = None,
        api: Api | None = None,
    ) -> None:
        self._client = AsyncClient(
            context=context,
            kubeconfig=kubeconfig,
            server=server,
            token=token,
            in_cluster=in_cluster,
            login=login,
            ca_file=ca_file,
            verify_tls=verify_tls,
            namespace=namespace,
            api=api,
        )
        self._thread = LoopThread(self._client.close)

    @cached_property
    def ray(self) -> "Ray":
        """Ray clusters and Ray jobs."""
        from steelyard.clusters.ray.groups import Ray

        return Ray(self._client.ray, self._thread)

    @cached_property
    def queues(self) -> "Queues":
        """Queues of Kueue and what waits in them."""
        from steelyard.clusters.queues import Queues

        return Queues(self._client.queues, self._thread)

    @cached_property
    def appwrappers(self) -> "AppWrappers":
        """Groups of objects that run as one."""
        from steelyard.clusters.appwrappers import AppWrappers

        return AppWrappers(self._client.appwrappers, self._thread)

    @cached_property
    def admin(self) -> "Admin":
        """Administration of queues."""
        from steelyard.clusters.admin import Admin

        return Admin(self._client.admin, self._thread)

    @cached_property
    def training(self) -> "Training":
        """Training jobs."""
        from steelyard.clusters.training_jobs import Training

        return Training(self._client.training, self._thread)

    @property
    def namespace(self) -> str:
        """Namespace of calls that name none."""
        return self._client.namespace

    def close(self) -> None:
        """Close the connections. A client that is not closed closes them when it is gone, and at the program's end."""
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
