"""Which cluster the commands of `steelyard train` talk to, and how a command does its work there."""

import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from steelyard.cli.connection import FolderOption, choose_state_dir, command_name
from steelyard.cli.extras import needs

if TYPE_CHECKING:
    from steelyard.kube.client import RestCluster
    from steelyard.local.state import StateDir

T = TypeVar("T")

NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="Of the job.")]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A cluster's; by default what runs on this machine, else the one that KUBECONFIG names.",
    ),
]
ContextOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="A context of the kubeconfig; by default its current one.")
]
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Its name, or KIND/NAME such as pytorchjob/digits.")
]


@dataclass(frozen=True)
class Place:
    """A cluster and a namespace in it; `state` where it is the one of this machine."""

    namespace: str
    kubeconfig: Path | None
    context: str | None = None
    state: "StateDir | None" = None

    @property
    def flags(self) -> str:
        """What another command needs to find the same place, with a blank before it."""
        words = ""
        if self.state is not None and choose_state_dir(None).path != self.state.path:
            words += f" --state-dir {short(self.state.path)}"
        if self.state is None and self.kubeconfig is not None:
            words += f" --kubeconfig {short(self.kubeconfig)}"
        words += f" --context {self.context}" if self.context else ""
        return words + (f" -n {self.namespace}" if self.namespace != "default" else "")

    @property
    def up(self) -> str:
        """How a platform is started here."""
        return f"{command_name()} up --detach{self.flags}"

    def command(self, words: str) -> str:
        """`steelyard train WORDS`, as it is to be typed."""
        return f"{command_name()} train {words}{self.flags}"


@dataclass(frozen=True)
class ClusterOptions:
    """How a command finds the cluster: what its options say."""

    namespace: str
    state_dir: Path | None
    kubeconfig: Path | None
    context: str | None

    @property
    def extra(self) -> str:
        """The extra with which the commands work: jobs of this machine need what runs them as well."""
        return "operator" if self.kubeconfig or os.environ.get("KUBECONFIG") else "local"

    def find(self) -> Place:
        """Raises UsageError, which says how to start what does not run."""
        place = self.running()
        if place is None:
            from steelyard.errors import UsageError

            folder = f" --state-dir {self.state_dir}" if self.state_dir else ""
            raise UsageError(
                f"no platform runs on {short(choose_state_dir(self.state_dir).path)}; "
                f"start it with: {command_name()} up --detach{folder}\n"
                "or name a cluster with --kubeconfig FILE"
            )
        return place

    def running(self) -> Place | None:
        """None where no cluster is named and none runs here."""
        if self.kubeconfig is not None:
            return Place(self.namespace, self.kubeconfig, self.context)
        from steelyard.local.detached import running

        state = choose_state_dir(self.state_dir)
        if running(state):
            return Place(self.namespace, state.kubeconfig, self.context, state)
        named = self.context is not None or os.environ.get("KUBECONFIG")
        return Place(self.namespace, None, self.context) if named and self.state_dir is None else None


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """The command, whose last parameter is `cluster`, with the options that say which one."""
    own = inspect.signature(command)
    kinds: dict[str, Any] = {
        "namespace": NamespaceOption,
        "state_dir": FolderOption,
        "kubeconfig": KubeconfigOption,
        "context": ContextOption,
    }
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default="default" if name == "namespace" else None,
            annotation=kind,
        )
        for name, kind in kinds.items()
    ]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        cluster = ClusterOptions(*(given.pop(name) for name in kinds))
        needs(cluster.extra)(command)(**given, cluster=cluster)

    kept = [each for name, each in own.parameters.items() if name != "cluster"]
    called.__signature__ = own.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
    hints = {name: kind for name, kind in command.__annotations__.items() if name != "cluster"}
    called.__annotations__ = hints | kinds
    return called


def on(place: Place, work: Callable[["RestCluster"], Awaitable[T]]) -> T:
    """Do the work there. What the API refuses, or its silence, is one line."""
    import asyncio

    from steelyard.errors import SteelyardError
    from steelyard.kube.errors import ApiError, Unreachable
    from steelyard.kube.kubeconfig import KubeconfigError

    try:
        return asyncio.run(_on(place, work))
    except KubeconfigError as error:
        raise SteelyardError(str(error)) from error
    except Unreachable as error:
        raise SteelyardError(f"the cluster does not answer: {error.message}") from error
    except ApiError as error:
        raise SteelyardError(f"the cluster refuses: {error.message}") from error


async def _on(place: Place, work: Callable[["RestCluster"], Awaitable[T]]) -> T:
    from steelyard.cli.train.outage import outages_told
    from steelyard.kube.client import connect

    cluster = await connect(place.kubeconfig, context=place.context)
    try:
        with outages_told():
            return await work(cluster)
    finally:
        await cluster.close()


def short(path: Path) -> str:
    """As a person would type it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
