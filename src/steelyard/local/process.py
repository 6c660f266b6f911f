"""The frame of a service's process: its lock, its log, its event loop, its orders. `cli/service.py` calls it."""

import asyncio
import errno
import gc
import logging
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from steelyard.errors import Refused, SteelyardError, leaves, words_of_file_error
from steelyard.local.lock import FileLock, LockHeld
from steelyard.local.network import Network
from steelyard.local.pipe import Orders, take_orders
from steelyard.local.renewal import Renewal, execute_again
from steelyard.local.state import StateDir, prepare
from steelyard_kube.leader import LeaseLost

SERVICES = (
    "aggregator",
    "view-sink",
    "backup-sink",
    "reaper",
    "orchestrator",
    "informer",
    "lineage",
    "webhooks",
    "api",
)
"""Services of the platform, each of which also runs alone."""
PARTS = ("kubernetes", "operator", "platform", *SERVICES)
DEFAULT_THRESHOLDS = gc.get_threshold()
"""Thresholds of Python's search for cycles of garbage."""
START_THRESHOLDS = (20_000, 20, 20)
"""The same while a part starts."""
_ADDRESS = re.compile(r"\('(?P<host>[^']*)', (?P<port>\d+)")
"""Address in the message of an error of `create_server`."""
LOCK_SECONDS = 20.0  # for a predecessor whose supervisor was killed: it is about to end


@dataclass(frozen=True)
class ServiceOptions:
    """Request of `steelyard service`."""

    name: str
    state: StateDir
    port: int = 0
    network: int = 16
    settings: Path | None = None
    without: tuple[str, ...] = ()
    line: int | None = None
    listener: int | None = None
    """Listening socket of the program whose place this one takes, for kubernetes."""
    replica: int = 1
    """Number of this process among those of the same service on the folder; the first is the one that clients find."""

    @property
    def services(self) -> tuple[str, ...]:
        """Return the services of the platform that it runs."""
        chosen = SERVICES if self.name == "platform" else (self.name,) if self.name in SERVICES else ()
        return tuple(name for name in chosen if name not in self.without)


def process_name(name: str, replica: int) -> str:
    """Return the name of one of several processes of a service; the first has the service's own."""
    return name if replica == 1 else f"{name}-{replica}"


def run_process(part: ServiceOptions) -> None:
    """Run the part until it is asked to end. Only one process of a name and number runs on a folder."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    # Nearly all that a start makes stays: to search it for garbage took a tenth of its time.
    gc.set_threshold(*START_THRESHOLDS)
    orders, renewal = Orders(), Renewal(part.listener)
    with ExitStack() as locks:
        with in_lines():
            prepare(part.state)
        for name in part.services or (part.name,):
            locks.callback(_take_lock(part.state.lock(process_name(name, part.replica))).release)
        with in_lines(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(part, orders, renewal))
    # Only now: the folder's locks are free, and nothing of this program runs any more.
    if renewal.listener is not None and not orders.end_pods.is_set():
        execute_again(renewal.listener, [line.fileno() for line in orders.lines])


@contextmanager
def in_lines() -> Iterator[None]:
    """End the process with one line, without a traceback, for errors that a person has to decide on, or that
    an engine reports of itself.

    It may come from any task of a group, together with others that failed for it.
    """
    try:
        yield
    except LeaseLost as lost:
        raise SteelyardError(
            f"{lost}: this process ends, and stands for election again once started"
        ) from lost
    except (OSError, ExceptionGroup) as failure:
        causes = leaves(failure) if isinstance(failure, ExceptionGroup) else [failure]
        said = [error for cause in causes if (error := _in_words(cause)) is not None]
        if not said:
            raise
        raise next((error for error in said if error.exit_code == Refused.exit_code), said[0]) from failure


def _in_words(error: BaseException) -> SteelyardError | None:
    """Return an error that is a line for a person: its own, or one of the system about a file."""
    if isinstance(error, SteelyardError):
        return error
    if not isinstance(error, OSError):
        return None
    # Two of a moment may reserve one port, as the `up`s of two copies of a folder do; one of them listens first.
    if error.errno == errno.EADDRINUSE and (address := _ADDRESS.search(str(error))):
        from steelyard.local.machine import listener_name

        port = int(address["port"])
        who = f"{listener_name(port)} listens there already; end that one, or choose another port"
        return SteelyardError(f"port {port} of {address['host']}: {who}")
    words = words_of_file_error(error)
    return None if words is None else SteelyardError(words)


async def _run(part: ServiceOptions, orders: Orders, renewal: Renewal) -> None:
    ready = take_orders(part.line, orders)
    started = partial(_report_ready, ready)
    match part.name:
        case "kubernetes":
            from steelyard.local.service import run_kubernetes

            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, renewal.order, orders.stop)
            await run_kubernetes(
                part.state,
                port=part.port,
                network=Network(part.network),
                settings=part.settings,
                orders=orders,
                renewal=renewal,
                ready=ready,
            )
        case "operator":
            from steelyard.local.service import run_operator_service

            await run_operator_service(part.state, settings=part.settings, stop=orders.stop, ready=started)
        case _:
            from steelyard.local.platform import run_platform
            from steelyard.settings import load
            from steelyard.tracing import traced

            settings = load(part.settings, part.state.path)
            with traced(part.name, settings.telemetry.otlp_endpoint):
                await run_platform(
                    part.state, settings, part.services, port=part.port, stop=orders.stop, ready=started,
                    settings_file=part.settings, replica=part.replica,
                )  # fmt: skip


def _report_ready(ready: Callable[[], None]) -> None:
    """Report that the part runs. What it has imported is never garbage, and from now on garbage is searched as usual.

    Kubernetes itself says how often it searches.
    """
    gc.freeze()
    gc.set_threshold(*DEFAULT_THRESHOLDS)
    ready()


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
        except LockHeld:
            if time.monotonic() > until:
                raise SteelyardError(f"{path} is held by another process of this name") from None
            time.sleep(0.05)
            continue
        return lock
