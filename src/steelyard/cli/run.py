"""`steelyard run DIR`: applies a folder of manifests one after the other, and shows how far each has come."""

from pathlib import Path

import typer

Display = typer.Option("auto", help="How to show progress: auto, rich (live table), plain (lines) or none.")


def run(
    folder: Path = typer.Argument(help="Folder with manifests (*.yaml) and, if it needs one, a prepare.py."),
    state_dir: Path | None = typer.Option(
        None, help="State folder; by default ./.steelyard if there is one, else the user's."
    ),
    settings: Path | None = typer.Option(
        None, help="Settings file (steelyard.toml).", envvar="STEELYARD_SETTINGS"
    ),
    namespace: str = typer.Option("default", help="Namespace for manifests that name none."),
    timeout: int = typer.Option(3600, help="Seconds that one resource may take."),
    display: str = Display,
) -> None:
    """Apply the manifests of DIR with fresh ids, in order, and wait for each to finish.

    Starts the embedded Kubernetes and the operator if they do not run, and stops what it started. Where there is a
    DIR/prepare.py it runs first, with STEELYARD_STORAGE set. Exit status 0 only if everything succeeded.
    """
    import asyncio

    from steelyard.cli.run_folder import RunOptions, run_folder

    asyncio.run(run_folder(RunOptions(folder, state_dir, settings, namespace, timeout, display)))
