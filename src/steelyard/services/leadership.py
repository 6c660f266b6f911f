"""Of several copies of a service one works; when it cannot keep its lease it stops at once and stands again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from steelyard.kube.leader import LeaderElector, LeaseLost, until

_log = logging.getLogger(__name__)

Leading = Callable[[], bool]
"""Whether nobody else can lead at this moment: asked before each effect on the world."""


async def surely(leading: Leading) -> None:
    """Return while leading; who does not is cancelled here, or goes on if the lease was renewed late."""
    while not leading():  # noqa: ASYNC110 (it is a clock that says so)
        await asyncio.sleep(0.05)


async def lead_until(
    stop: asyncio.Event,
    elector: Callable[[], LeaderElector],
    work: Callable[[Leading], Awaitable[None]],
) -> None:
    """Work whenever elected, until `stop`; what the work raises goes to the caller."""
    await until(stop, _lead(elector, work))


async def _lead(elector: Callable[[], LeaderElector], work: Callable[[Leading], Awaitable[None]]) -> None:
    while True:
        candidate = elector()
        try:
            await candidate.lead(lambda candidate=candidate: work(lambda: candidate.leading))  # type: ignore[misc]
        except LeaseLost as lost:
            _log.warning("stopped, and standing for election again: %s", lost)
