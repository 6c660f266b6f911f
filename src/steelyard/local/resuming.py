"""A service that begins again where an engine's server is away for a while: a restart, a failover, a cut network.

A service acknowledges nothing that is not durable, so that it may begin again at any time, in the same process as well
as in a new one. Within the process the API goes on answering what can be answered, with 503 where an engine is needed,
and the engines' clients keep what they hold. Where the server stays away for longer, the process ends with the error
and the supervisor starts it again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from steelyard_common.disk_space import is_cancelled, no_room, run_apart
from steelyard_common.errors import Refused, is_engine_failure, leaves

_log = logging.getLogger(__name__)

PATIENCE_SECONDS = 120.0
"""Time since the first failure after which the error is raised."""
STEADY_SECONDS = 30.0
"""Time of work without a failure after which a later failure counts as the first again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between the end of a service and its next beginning; the pause doubles."""


async def retry_engine_failures(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a service, again where an engine fails, for `PATIENCE_SECONDS` from the first failure on.

    Raises what it raised last, and at once what no wait can help: a fault of our own, an engine that refuses to be
    used, a full disk (others wait for that).
    """
    loop, pause, failing_since = asyncio.get_running_loop(), FIRST_PAUSE, None
    while True:
        began = loop.time()
        try:
            return await run_apart(run)
        except Exception as error:
            now = loop.time()
            if failing_since is None or now - began > STEADY_SECONDS:
                failing_since, pause = now, FIRST_PAUSE
            if is_cancelled() or not may_pass(error) or now - failing_since > PATIENCE_SECONDS:
                raise
            _log.warning("%s: %s; it begins again in %.1f s", name, in_short(error), pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def may_pass(error: BaseException) -> bool:
    """Return whether every error of a group is a failure of an engine that may answer again by itself."""
    return all(
        is_engine_failure(member) and not isinstance(member, Refused) and not no_room(member)
        for member in leaves(error)
    )


def in_short(error: BaseException) -> str:
    """Return one line: the message of the error, or of the first of a group."""
    first = next(leaves(error))
    return " ".join(str(first).split()) or type(first).__name__
