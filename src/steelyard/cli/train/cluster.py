"""The cluster that a command of `steelyard train` talks to, and the connection to it."""

import functools
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from steelyard.cli.connection import FolderOption, choose_state_dir, command_name, short_path
from steelyard.cli.extras import needs
from steelyard.cli.option_groups import with_options
from steelyard.cli.train.screen import CLEAR

if TYPE_CHECKING:
    from steelyard.local.state import StateDir
    from steelyard_kube.client import RestCluster

T = TypeVar("T")

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Name of the job, or KIND/NAME such as pytorchjob/digits.")
]
WATCHES = "steelyard_kube.informer"
AGAIN_SECONDS = 60.0


@dataclass(frozen=True)
class ClusterTarget:
    """A cluster and a namespace in it; `state` is set for the cluster of this machine."""

    namespace: str
    kubeconfig: Path | None
    context: str | None = None
    state: "StateDir | None" = None
    own: str = "default"
    """Namespace that a command uses if none is named."""

    @property
    def flags(self) -> str:
        """The options by which another command finds the same cluster and namespace, with a blank before them."""
        words = ""
        if self.state is not None and choose_state_dir(None).path != self.state.path:
            words += f" --state-dir {short_path(self.state.path)}"
        if self.state is None and self.kubeconfig is not None:
            words += f" --kubeconfig {short_path(self.kubeconfig)}"
        words += f" --context {self.context}" if self.context else ""
        return words + (f" -n {self.namespace}" if self.namespace != self.own else "")

    @property
    def up(self) -> str:
        """The command that starts a platform here."""
        return f"{command_name()} up --detach{self.flags}"

    def command(self, words: str) -> str:
        """Return `steelyard train WORDS` as a user types it."""
        return f"{command_name()} train {words}{self.flags}"


@dataclass(frozen=True)
class ClusterOptions:
    """The options by which a command finds the cluster."""

    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="Namespace in the cluster. Default: that of the kubeconfig's context, then default.",
        ),
    ] = ""
    state_dir: FolderOption = None
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Kubeconfig of a cluster. Default: the cluster that runs on this machine, else the one that "
            "KUBECONFIG names.",
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Context in the kubeconfig. Default: its current context."),
    ] = None

    @property
    def extra(self) -> str:
        """The extra with which the commands work: jobs of this machine need what runs them as well."""
        return "operator" if self.kubeconfig or os.environ.get("KUBECONFIG") else "local"

    def find(self) -> ClusterTarget:
        """Return the running cluster. UsageError says how to start one."""
        place = self.running()
        if place is None:
            from steelyard_common.errors import UsageError

            folder = f" --state-dir {self.state_dir}" if self.state_dir else ""
            raise UsageError(
                f"no platform runs on {short_path(choose_state_dir(self.state_dir).path)}; "
                f"start it with: {command_name()} up --detach{folder}\n"
                "or name a cluster with --kubeconfig FILE"
            )
        return place

    def running(self) -> ClusterTarget | None:
        """Return the cluster, or None where none is named and none runs on this machine."""
        if self.kubeconfig is not None:
            return self.place(self.kubeconfig)
        from steelyard.local.detached import running

        state = choose_state_dir(self.state_dir)
        # The cluster of this machine wins over KUBECONFIG: a user who started one here means it.
        if running(state):
            return self.place(state.kubeconfig, state)
        named = self.context is not None or os.environ.get("KUBECONFIG")
        return self.place(None) if named and self.state_dir is None else None

    def place(self, kubeconfig: Path | None, state: "StateDir | None" = None) -> ClusterTarget:
        """Return the place of a cluster, in the namespace that kubectl would take."""
        from steelyard_kube.kubeconfig import find_namespace

        own = find_namespace(kubeconfig, self.context) or "default"
        return ClusterTarget(self.namespace or own, kubeconfig, self.context, state, own)


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with ClusterOptions in place of its parameter `cluster`, and a check of the extra."""

    @functools.wraps(command)
    def call_command(**values: Any) -> None:
        needs(values["cluster"].extra)(command)(**values)

    return with_options(call_command)


def on(place: ClusterTarget, work: Callable[["RestCluster"], Awaitable[T]]) -> T:
    """Do the work on the cluster. A refusal or silence of its API is raised as an error of one line."""
    import asyncio

    from steelyard_common.errors import SteelyardError
    from steelyard_kube.errors import ApiError, Unreachable
    from steelyard_kube.kubeconfig import KubeconfigError

    try:
        return asyncio.run(_on(place, work))
    except KubeconfigError as error:
        raise SteelyardError(str(error)) from error
    except Unreachable as error:
        raise SteelyardError(f"the cluster does not answer: {error.message}") from error
    except ApiError as error:
        raise SteelyardError(f"the cluster refuses: {error.message}") from error


async def _on(place: ClusterTarget, work: Callable[["RestCluster"], Awaitable[T]]) -> T:
    from steelyard_kube.client import connect

    cluster = await connect(place.kubeconfig, context=place.context)
    try:
        with outages_told():
            return await work(cluster)
    finally:
        await cluster.close()


class _Once(logging.Handler):
    """One line in a minute, whatever number of tries fail."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        if time.monotonic() - self._told < AGAIN_SECONDS:
            return
        self._told = time.monotonic()
        clear = CLEAR if sys.stderr.isatty() else ""
        print(f"{clear}the cluster does not answer; trying again; the jobs continue", file=sys.stderr)


@contextmanager
def outages_told() -> Iterator[None]:
    """Report outages of this process's watches once, while the context lasts."""
    logger, handler = logging.getLogger(WATCHES), _Once()
    # The root logger would print every try with its traceback between the lines of the job.
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
