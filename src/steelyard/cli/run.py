"""`steelyard run DIR`: applies a folder of manifests one after the other, and shows their progress."""

from pathlib import Path

import typer

from steelyard.cli.connection import FolderOption
from steelyard.cli.extras import check_local, needs

Display = typer.Option("auto", help="How to show progress: auto, rich (live table), plain (lines) or none.")


@needs("local")
def run(
    folder: Path = typer.Argument(help="Folder with manifests (*.yaml) and, if it needs one, a prepare.py."),
    state_dir: FolderOption = None,
    settings: Path | None = typer.Option(
        None, help="Settings file (steelyard.toml).", envvar="STEELYARD_SETTINGS"
    ),
    namespace: str = typer.Option("default", help="Namespace for manifests that name none."),
    timeout: int = typer.Option(3600, min=1, help="Time limit of one resource, in seconds."),
    display: str = Display,
) -> None:
    """Apply a folder of manifests, and wait for them to finish.

    Manifests are applied in the order of their names, with new ids. The command starts the embedded Kubernetes and the
    operator if they do not run, and stops what it started. If the folder has a prepare.py, it runs first, with
    STEELYARD_STORAGE set. Exit status 0 only if everything succeeded.
    """
    check_local()
    import asyncio

    from steelyard.cli.run_folder import RunOptions, run_folder

    asyncio.run(run_folder(RunOptions(folder, state_dir, settings, namespace, timeout, display)))
