"""The frame of a service's process: its lock, its log, its event loop, its orders. `cli/service.py` calls it."""

import asyncio
import errno
import gc
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.local.files import prepare
from steelyard.local.pipe import Orders, take_orders
from steelyard.local.state import StateDir, make_folder, process_name
from steelyard_common.errors import Refused, SteelyardError, leaves, words_of_file_error
from steelyard_common.event_loop import loop_factory
from steelyard_common.lock import FileLock, LockHeld
from steelyard_kube.leader import LeaseLost

if TYPE_CHECKING:
    from steelyard.settings import Settings

SERVICES = (
    "aggregator",
    "view-sink",
    "backup-sink",
    "reaper",
    "orchestrator",
    "informer",
    "lineage",
    "webhooks",
    "storage",
    "api",
)
"""Services of the platform; each also runs alone."""
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
    folder_chosen: bool = True
    """True if the caller has named the state folder; a process in a Pod that keeps nothing there needs none."""

    @property
    def services(self) -> tuple[str, ...]:
        """Return the services of the platform that it runs."""
        chosen = SERVICES if self.name == "platform" else (self.name,) if self.name in SERVICES else ()
        return tuple(name for name in chosen if name not in self.without)


def run_process(part: ServiceOptions) -> None:
    """Run the part until it is asked to end. Only one process of a name and number runs on a folder."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    # Nearly all that a start makes stays: to search it for garbage took a tenth of its time.
    gc.set_threshold(*START_THRESHOLDS)
    orders = Orders()
    with ExitStack() as locks:
        with in_lines():
            settings = load_settings(part)
            has_folder = prepare_folder(part, settings)
        for name in part.services or (part.name,) if has_folder else ():
            locks.callback(_take_lock(part.state.lock(process_name(name, part.replica))).release)
        with in_lines(), asyncio.Runner(loop_factory=loop_factory()) as runner:
            listener = runner.run(_run(part, settings, orders))
    # Only now: the folder's locks are free, and nothing of this program runs any more.
    if listener is not None and not orders.end_pods.is_set():
        execute_again(listener, [line.fileno() for line in orders.lines])


def load_settings(part: ServiceOptions) -> "Settings | None":
    """Load the settings; Kubernetes needs few of them, and reads these itself."""
    if part.name == "kubernetes":
        return None
    from steelyard.settings import load

    return load(part.settings, part.state.path)


def prepare_folder(
    part: ServiceOptions, settings: "Settings | None", environment: Mapping[str, str] = os.environ
) -> bool:
    """Prepare the state folder as far as the part needs one; return whether it has one.

    The secrets of one machine are made where an engine is a file. On servers the folder has locks and the addresses of
    the processes, for others on the same machine; a Pod needs no folder.
    """
    if settings is None or keeps_engines(part.name, settings, part.state):
        prepare(part.state)
        return True
    if part.folder_chosen or "KUBERNETES_SERVICE_HOST" not in environment:
        make_folder(part.state)
        return True
    return False


def keeps_engines(name: str, settings: "Settings", state: StateDir) -> bool:
    """Return whether an engine of the part is a file of one machine, or its Kubernetes is the folder's."""
    databases = (settings.log, settings.view, settings.accounts)
    own = f"file://{state.path.resolve()}/"
    stores = (settings.storage, settings.backup)
    files = any(address.startswith("sqlite:") for address in databases)
    inside = any(address.startswith(own) for address in stores)
    # The operator itself reads and writes no engine.
    return state.runs(settings.kubernetes) or ((files or inside) and name != "operator")


@contextmanager
def in_lines() -> Iterator[None]:
    """End the process with one line, without a traceback, for errors that a person has to decide on, or that
    an engine reports of itself.

    It may come from any task of a group, together with others that failed for it.
    """
    try:
        yield
    except (LeaseLost, OSError, ExceptionGroup) as failure:
        causes = leaves(failure) if isinstance(failure, ExceptionGroup) else [failure]
        said = [error for cause in causes if (error := _in_words(cause)) is not None]
        if not said:
            raise
        raise next((error for error in said if error.exit_code == Refused.exit_code), said[0]) from failure


def _in_words(error: BaseException) -> SteelyardError | None:
    """Return an error that is a line for a person: its own, or one of the system about a file."""
    if isinstance(error, SteelyardError):
        return error
    if isinstance(error, LeaseLost):
        return SteelyardError(f"{error}: this process ends, and stands for election again once started")
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


def execute_again(listener: int, kept: Iterable[int] = ()) -> None:
    """Execute this process's program again, with the listening socket and other descriptors that it needs.

    Does not return. Raises OSError where the program cannot be executed: the process ends, and its supervisor starts
    another.
    """
    for descriptor in (listener, *kept):
        os.set_inheritable(descriptor, True)
    logging.getLogger(__name__).info("the program restarts in the same process")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, command_again([sys.executable, *sys.orig_argv[1:]], listener))


def command_again(command: Sequence[str], listener: int) -> list[str]:
    """Return the command with another `--listener`."""
    words = list(command)
    if "--listener" in words:
        at = words.index("--listener")
        del words[at : at + 2]
    return [*words, "--listener", str(listener)]


async def _run(part: ServiceOptions, settings: "Settings | None", orders: Orders) -> int | None:
    """Run the part; return the listening socket with which its program is to be executed again, if it is."""
    ready = take_orders(part.line, orders)
    started = partial(_report_ready, ready)
    match settings:
        case None:
            from steelyard.local.kubernetes import run_kubernetes
            from steelyard_local_kubernetes.renewal import Renewal

            renewal = Renewal(part.listener)
            asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, renewal.order, orders.stop)
            await run_kubernetes(
                part.state,
                port=part.port,
                network=part.network,
                settings=part.settings,
                orders=orders,
                renewal=renewal,
                ready=ready,
            )
            return renewal.listener
        case _ if part.name == "operator":
            from steelyard.local.operator import run_operator_service

            await run_operator_service(part.state, settings, stop=orders.stop, ready=started)
        case _ if part.name == "storage":
            from steelyard.local.storage import run_storage_service

            await run_storage_service(
                part.state, settings, replica=part.replica, stop=orders.stop, ready=started
            )
        case _:
            from steelyard.local.platform import run_platform
            from steelyard.telemetry.tracing import send_spans

            with send_spans(part.name, settings.telemetry.otlp_endpoint):
                await run_platform(
                    part.state, settings, part.services, port=part.port, stop=orders.stop, ready=started,
                    settings_file=part.settings, replica=part.replica,
                )  # fmt: skip
    return None


def _report_ready(ready: Callable[[], None]) -> None:
    """Report that the part runs. What it has imported is never garbage, and from now on garbage is searched as usual.

    Kubernetes itself says how often it searches.
    """
    gc.freeze()
    gc.set_threshold(*DEFAULT_THRESHOLDS)
    ready()


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
