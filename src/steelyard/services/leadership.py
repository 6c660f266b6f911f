"""Leader election of services: of several copies one works. A copy that cannot keep its lease stops at once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from prometheus_client import Gauge

from steelyard_kube.leader import LeaderElector, LeaseLost, until

_log = logging.getLogger(__name__)

Leadership = Callable[[], bool]
"""Says whether this process leads: False from the moment at which another one could hold the lease."""


async def ensure_leader(leadership: Leadership) -> None:
    """Return while this process leads. Services await it right before they write."""
    # A process that has lost its lease is cancelled while it waits here; one that renews it late goes on.
    while not leadership():  # noqa: ASYNC110 (only the clock says so)
        await asyncio.sleep(0.05)


async def lead_until(
    stop: asyncio.Event,
    elector: Callable[[], LeaderElector],
    work: Callable[[Leadership], Awaitable[None]],
    leading: Gauge | None = None,
) -> None:
    """Work whenever elected, until `stop`, and show in `leading` who leads. What the work raises goes to the caller."""
    await until(stop, _lead(elector, work, leading))


async def _lead(
    elector: Callable[[], LeaderElector],
    work: Callable[[Leadership], Awaitable[None]],
    leading: Gauge | None,
) -> None:
    while True:
        candidate = elector()
        if leading is not None:
            leading.set_function(lambda candidate=candidate: candidate.leading)  # type: ignore[misc]
        try:
            await candidate.lead(lambda candidate=candidate: work(lambda: candidate.leading))  # type: ignore[misc]
        except LeaseLost as lost:
            _log.warning("stopped; standing for election again: %s", lost)
