"""Waiting by polling: the newest state is read until it is the desired one; the wait ends early where it never will
be."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from steelyard.clusters.errors import Failed, TooManyRequests, Unavailable, Unreachable, WaitTimeout

T = TypeVar("T")
POLL_SECONDS = 2.0
STUCK_SECONDS = 30.0


async def wait_for(  # noqa: PLR0913
    read: Callable[[], Awaitable[T]],
    *,
    done: Callable[[T], bool],
    stuck: Callable[[T], bool],
    failed: Callable[[T], bool],
    timeout: float | None,
    poll: float = POLL_SECONDS,
    patience: float = STUCK_SECONDS,
    on_change: Callable[[T], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Return the state once it is `done`. Raises Failed, and WaitTimeout.

    It calls `read` every `poll` seconds. A state that has `failed` ends the wait at once, one that is `stuck` after
    `patience` seconds. A cluster that does not answer is asked again until `timeout` seconds are over; without a
    timeout its error is raised. `on_change` is called with each state whose text differs from that
    of the state before, but not with the one that ends the wait.
    """
    start, stuck_since, state, shown = clock(), None, None, ""
    while True:
        try:
            state = await read()
        except (Unreachable, Unavailable, TooManyRequests):
            if timeout is None or clock() - start >= timeout:
                raise
        else:
            if done(state):
                return state
            if failed(state):
                raise Failed(str(state), state)
            if on_change is not None and str(state) != shown:
                shown = str(state)
                on_change(state)
            if not stuck(state):
                stuck_since = None
            else:
                stuck_since = clock() if stuck_since is None else stuck_since
                if clock() - stuck_since >= patience:
                    raise Failed(str(state), state)
            if timeout is not None and clock() - start >= timeout:
                raise WaitTimeout(f"after {timeout:g} s, {state}", state)
        await asyncio.sleep(poll)
