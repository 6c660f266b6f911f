"""The frame of a service's process: its lock, its log, its event loop, its orders. `cli/service.py` calls it."""

import asyncio
import logging
import sys
import time
from pathlib import Path

from steelyard.errors import SteelyardError
from steelyard.local.lock import FileLock, Held
from steelyard.local.network import Network
from steelyard.local.pipe import Orders, take_orders
from steelyard.local.service import run_kubernetes, run_operator_service
from steelyard.local.state import StateDir, prepare

LOCK_SECONDS = 20.0  # for a predecessor whose supervisor was killed: it is about to end


def run_process(
    name: str, state: StateDir, *, port: int, network: int, settings: Path | None, line: int | None
) -> None:
    """Run the part until it is told to end. Only one process of a name runs on a folder."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    prepare(state)
    lock = _take_lock(state.lock(name))
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(name, state, port=port, network=network, settings=settings, line=line))
    finally:
        lock.release()


async def _run(
    name: str, state: StateDir, *, port: int, network: int, settings: Path | None, line: int | None
) -> None:
    orders = Orders()
    ready = take_orders(line, orders)
    if name == "kubernetes":
        await run_kubernetes(
            state,
            port=port,
            network=Network(network),
            stop=orders.stop,
            end_pods=orders.end_pods,
            ready=ready,
        )
    else:
        await run_operator_service(state, settings=settings, stop=orders.stop, ready=ready)


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


def _take_lock(path: Path) -> FileLock:
    lock, until = FileLock(path), time.monotonic() + LOCK_SECONDS
    while True:
        try:
            lock.acquire()
        except Held:
            if time.monotonic() > until:
                raise SteelyardError(f"{path} is held by another process of this name") from None
            time.sleep(0.05)
            continue
        return lock
