"""The needs of the platform's services at the moment: engines that answer, and rights at Kubernetes.

`/readyz` of a process without the API asks; `platform.py` serves it. Each answer counts for some seconds, however many
ask.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic

from steelyard.broker.log import STATE
from steelyard.engines.addresses import without_password
from steelyard.local.engines import Engines
from steelyard.services.identity import IDENTITY
from steelyard.settings import Settings
from steelyard_evaluation.storage.store import ObjectMissing, Store
from steelyard_kube.cluster import Cluster
from steelyard_kube.errors import ApiError, NotFound
from steelyard_kube.resource import LEASES

NEEDED: Mapping[str, Sequence[str]] = {
    "aggregator": ("log",),
    "view-sink": ("log", "view"),
    "backup-sink": ("log", "backup"),
    "reaper": ("log", "storage", "backup"),
    "orchestrator": ("log", "accounts"),
    "informer": ("log",),
    "lineage": ("log", "storage"),
    "webhooks": ("log", "accounts"),
    "storage": (),
    "api": ("log", "view", "accounts", "storage"),
}
"""Engines of each service; every process opens all at its start."""
ANSWER_SECONDS = 3.0
"""Time in which an engine has to answer."""
COUNTS_SECONDS = 5.0
"""Time for which an answer counts."""


class Needs:
    """Needs of the services of one process, tried when somebody asks."""

    def __init__(self, opened: Engines, settings: Settings, names: Sequence[str]) -> None:
        needed = {engine for name in names for engine in NEEDED[name]}
        tries: dict[str, Callable[[], Awaitable[object]]] = {
            "log": lambda: opened.log.ends(STATE),
            "view": opened.view.origin,
            "accounts": opened.accounts_database.origin.origin,
            "storage": lambda: is_there(opened.store),
            "backup": lambda: is_there(opened.backup),
        }
        self._tries = {
            f"{name} {without_password(getattr(settings, name))}": attempt
            for name, attempt in tries.items()
            if name in needed
        }
        self._known: list[str] = []
        self._asked = float("-inf")
        self._asking = asyncio.Lock()

    def add_cluster(self, cluster: Cluster, lease: str, namespace: str) -> None:
        """Need the right to lead, which the API answers only if it is there at all."""

        async def read_lease() -> None:
            try:
                await cluster.get(LEASES, lease, namespace)
            except NotFound:
                pass  # the first leader makes it
            except ApiError as error:
                raise ApiError(f"cannot read lease {namespace}/{lease}: {error.message}") from error

        self._tries[f"kubernetes, for {lease}"] = read_lease

    async def missing(self) -> Sequence[str]:
        """Return a line for each need that is not met: its name, and why."""
        async with self._asking:
            if monotonic() - self._asked > COUNTS_SECONDS:
                answers = await asyncio.gather(*(try_need(*need) for need in self._tries.items()))
                self._known = [answer for answer in answers if answer]
                self._asked = monotonic()
        return self._known


async def try_need(name: str, attempt: Callable[[], Awaitable[object]]) -> str:
    """Return why a need is not met, in a line; empty where it is."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await attempt()
    except TimeoutError:
        return f"{name}: does not answer within {ANSWER_SECONDS:.0f} s"
    except Exception as error:  # noqa: BLE001 - whatever an engine raises, the process has to say that it is not ready
        words = error.message if isinstance(error, ApiError) else str(error)
        return f"{name}: {' '.join(words.split()) or type(error).__name__}"
    return ""


async def is_there(store: Store) -> None:
    """Ask a store for an object that it may have or not."""
    with suppress(ObjectMissing):
        await store.head(IDENTITY)
