"""`steelyard ray demos`: copies the guided demos."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.connection import short_path


def demos(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder for the notebooks; it is made if it is not there."),
    ],
) -> None:
    """Copy the guided demos, Jupyter notebooks, into a folder."""
    from steelyard.clusters.notebooks import copy_notebooks
    from steelyard_common.errors import UsageError

    try:
        notebooks = copy_notebooks(folder)
    except FileExistsError as error:
        raise UsageError(f"{error}: is there already; name another folder") from error
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error
    for notebook in notebooks:
        typer.echo(short_path(notebook.absolute()))
    typer.echo("open them with JupyterLab (pip install jupyterlab) or another program for notebooks")
