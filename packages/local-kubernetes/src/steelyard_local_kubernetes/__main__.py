"""`python -m steelyard_local_kubernetes`: a Kubernetes in this process, until Ctrl-C or SIGTERM."""

import argparse
import asyncio
import importlib
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from steelyard_common.errors import SteelyardError, UsageError, leaves
from steelyard_common.lock import FileLock, LockHeld
from steelyard_local_kubernetes.config import KubernetesConfig


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m steelyard_local_kubernetes",
        description="A Kubernetes in one process: API server, controllers and a node whose Pods are processes of this "
        "machine. It prints the path of the kubeconfig once the node takes Pods, and runs until Ctrl-C or SIGTERM; "
        "Pods end with it. Objects stay in the folder, for the next run.",
    )
    folder = default_folder(os.environ)
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=folder,
        help=f"for objects, keys and logs; by default {folder}",
    )
    parser.add_argument(
        "--port", type=int, default=0, help="of the API server on 127.0.0.1; by default a free one"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    # It would list the kinds of other projects that nobody has installed.
    logging.getLogger("steelyard_kube.informer").setLevel(logging.ERROR)
    try:
        serve_folder(KubernetesConfig(options.folder.absolute(), port=options.port))
    except (SteelyardError, OSError, ExceptionGroup) as error:
        causes = leaves(error) if isinstance(error, ExceptionGroup) else [error]
        said = next((cause for cause in causes if isinstance(cause, SteelyardError | OSError)), None)
        if said is None:
            raise
        print(f"steelyard_local_kubernetes: {said}", file=sys.stderr)
        return said.exit_code if isinstance(said, SteelyardError) else 1
    return 0


def default_folder(environment: Mapping[str, str]) -> Path:
    """Return `$XDG_STATE_HOME/steelyard-local-kubernetes`, by default below `~/.local/state`."""
    base = environment.get("XDG_STATE_HOME") or ""
    return (
        Path(base) if base.startswith("/") else Path.home() / ".local/state"
    ) / "steelyard-local-kubernetes"


def serve_folder(config: KubernetesConfig) -> None:
    """Run Kubernetes on a folder that no other process of this command has, until SIGINT or SIGTERM."""
    from steelyard_local_kubernetes.run import run

    async def run_until_signal() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await run(config, stop, lambda kubeconfig: print(f"export KUBECONFIG={kubeconfig}", flush=True))

    config.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:  # on other interpreters than CPython there is none
        new_event_loop = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        new_event_loop = None
    try:
        with (
            FileLock(config.folder / "kubernetes.lock"),
            asyncio.Runner(loop_factory=new_event_loop) as runner,
        ):
            runner.run(run_until_signal())
    except LockHeld:
        raise UsageError(f"{config.folder}: another Kubernetes runs on this folder") from None


if __name__ == "__main__":
    sys.exit(main())
