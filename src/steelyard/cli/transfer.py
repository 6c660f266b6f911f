"""`steelyard upload, download, logs`: the files and logs of entities."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import (
    WITH_FILES,
    WORKFLOWS,
    PlatformOptions,
    collection_name,
    find_supporting,
    kind_argument,
    one_id,
)
from steelyard.cli.entities import IdArgument
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from steelyard_schema.answers import WorkflowLogEntry

UPLOADED = frozenset({"datasets", "datasources", "modules", "models"})
_INTERRUPTED = 130
"""Exit status of a command that Ctrl-C ends, as shells give it."""
AccountOption = Annotated[str, typer.Option(help="Account that owns the entity.")]
FolderArgument = Annotated[
    Path, typer.Argument(help="Folder for the files. An interrupted download is completed.")
]


@with_options
def upload(
    kind: Annotated[str, typer.Argument(help="Kind: dataset, datasource, module or model.")],
    folder: Annotated[Path, typer.Argument(help="Folder whose files are uploaded.")],
    account: AccountOption,
    name: Annotated[
        str | None, typer.Option(help="Name for people. Default: the name of the folder.")
    ] = None,
    *,
    platform: PlatformOptions,
) -> None:
    """Create a dataset, data source, module or model from a folder. Its id is printed."""
    from steelyard_common.errors import UsageError
    from steelyard_schema.paths import BadFolder, files_below

    plural = collection_name(kind, UPLOADED)
    if plural not in UPLOADED:
        raise UsageError(f"upload {kind}: should be dataset, datasource, module or model")
    if not folder.is_dir():
        raise UsageError(f"upload {folder}: there is no such folder")
    # Raised before the entity is made: it would wait for files for a week.
    try:
        files = files_below(folder)
    except BadFolder as error:
        raise UsageError(f"upload {error}") from error
    if plural == "datasets":
        check_tables(folder, files)
    with platform.connect() as client, _progress("uploading") as progress:
        created = getattr(client, plural).create_from_folder(
            folder, account=account, name=name or folder.resolve().name, progress=progress
        )
    typer.echo(f"{plural}/{created.id}")


def check_tables(folder: Path, files: Iterable[Path]) -> None:
    """Raise UsageError for what data sources and `eval run` would refuse."""
    from steelyard_common.errors import UsageError

    tables = [path for path in files if path.suffix == ".parquet"]
    if not tables:
        raise UsageError(
            f"upload {folder}: there is no .parquet file in it; CSV, JSON lines and Arrow become a dataset by way of a "
            f"data source: steelyard upload datasource {folder}"
        )
    try:
        from steelyard_evaluation.engine.table_files import BadTable
        from steelyard_evaluation.engine.tables import open_table
    except ImportError:
        return  # without the extra, the client reads the schema or says what is missing
    for path in tables:
        try:
            open_table(path, "parquet")
        except BadTable as error:
            raise UsageError(f"upload {path}: {error}") from error


@with_options
def download(
    kind: Annotated[str, kind_argument(WITH_FILES)],
    id: IdArgument,
    folder: FolderArgument,
    *,
    platform: PlatformOptions,
) -> None:
    """Download the files of an entity. They are a dataset's rows, an evaluation's outputs, a report's page."""
    plural = find_supporting(collection_name(kind, WITH_FILES), WITH_FILES, "files to download")
    with platform.connect() as client, _progress("downloading") as progress:
        collection = getattr(client, plural)
        collection.download(one_id(client, plural, id), folder, progress=progress)
    typer.echo(str(folder))


@with_options
def logs(
    kind: Annotated[str, kind_argument(WORKFLOWS)],
    id: IdArgument,
    since: Annotated[
        str | None,
        typer.Option(help="Print only lines of the last period, such as 1h, 30m or 2d. Default: all."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of lines.")] = 1000,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Follow the log until the workflow ends."),
    ] = False,
    *,
    platform: PlatformOptions,
) -> None:
    """Print what the Pods of a workflow have written. How many lines are left out is said on standard error."""
    from steelyard.cli import following

    plural = find_supporting(collection_name(kind, WORKFLOWS), WORKFLOWS, "logs")
    with platform.connect() as client:
        entity = one_id(client, plural, id)
        log = following.Log(getattr(client, plural), plural, entity, limit, _print, _note)
        if not follow:
            following.show_newest(log, since)
            return
        try:
            following.follow(log, since)
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None


def _note(text: str) -> None:
    typer.echo(text, err=True)


def _print(lines: "Iterable[WorkflowLogEntry]") -> None:
    from steelyard.cli.output import log_line

    for line in lines:
        typer.echo(log_line(line.timestamp, line.message or ""))


class _progress:  # noqa: N801  (a context manager that reads as a verb)
    """A progress bar in a terminal, nothing elsewhere; called with (file, bytes done, bytes in all)."""

    def __init__(self, verb: str) -> None:
        self._verb = verb

    def __enter__(self) -> Callable[[str, int, int], None]:
        import sys

        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

        from steelyard.cli.plain_text import terminal
        from steelyard_common.errors import one_line

        if not sys.stderr.isatty():
            self._bars = None
            return lambda name, done, total: None
        # The name of a file is no markup: rich would fail at one with [/] in it.
        name_column = TextColumn("{task.description}", markup=False)
        columns = (TextColumn(self._verb), name_column, BarColumn(), DownloadColumn())
        bars = self._bars = Progress(*columns, console=Console(file=terminal(sys.stderr)))
        bars.start()
        tasks: dict[str, object] = {}

        def show(name: str, done: int, total: int) -> None:
            task = tasks.get(name)
            if task is None:
                task = tasks[name] = bars.add_task(one_line(name), total=total)
            bars.update(task, completed=done)  # type: ignore[arg-type]

        return show

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()
