"""`steelyard upload, download, logs, report, audit, safetycase`: the files and logs of entities."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import (
    WITH_FILES,
    WORKFLOWS,
    PlatformOptions,
    collection_name,
    kind_argument,
    one_id,
    one_of,
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
    from steelyard.errors import UsageError
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
    from steelyard.errors import UsageError

    tables = [path for path in files if path.suffix == ".parquet"]
    if not tables:
        raise UsageError(
            f"upload {folder}: there is no .parquet file in it; CSV, JSON lines and Arrow become a dataset by way of a "
            f"data source: steelyard upload datasource {folder}"
        )
    try:
        from steelyard.evaluation.table_files import BadTable
        from steelyard.evaluation.tables import open_table
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
    plural = one_of(collection_name(kind, WITH_FILES), WITH_FILES, "files to download")
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

    plural = one_of(collection_name(kind, WORKFLOWS), WORKFLOWS, "logs")
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


report = typer.Typer(
    help="Open, download, verify and sign reports.", no_args_is_help=True, rich_markup_mode=None
)
audit = typer.Typer(
    help="Open, download, verify and sign audits.", no_args_is_help=True, rich_markup_mode=None
)


safetycase = typer.Typer(
    help="Open and download safety cases, and show their scores.", no_args_is_help=True, rich_markup_mode=None
)


def _open_command(kind: str, name: str) -> Callable[..., None]:
    """Return `open` for a kind whose output is a page called `name`."""

    @with_options
    def open_(
        id: IdArgument,
        *,
        platform: PlatformOptions,
    ) -> None:
        """Open the page in a browser."""
        import tempfile

        from steelyard.cli.frames import frame_of, has_foreign_page

        # Not removed at the end: the browser reads the page after this command has gone.
        page = Path(tempfile.mkdtemp(prefix="steelyard-")) / "page" / name
        with platform.connect() as client:
            entity = one_id(client, kind, id)
            getattr(client, kind).download(entity, page.parent)
            foreign = has_foreign_page(client, kind, entity)
        typer.echo(str(page))
        typer.launch((frame_of(page, kind) if foreign else page).as_uri())

    return open_


def _save_command(kind: str, name: str) -> Callable[..., None]:
    """Return `save` for a kind whose output is a page called `name`."""

    @with_options
    def save(
        id: IdArgument,
        folder: FolderArgument,
        *,
        platform: PlatformOptions,
    ) -> None:
        """Save the page and the files that belong to it."""
        typer.echo(str(_saved(kind, id, folder, platform) / name))

    return save


def _download_command(kind: str, name: str) -> Callable[..., None]:
    """Return `download`, also with all evidence, for a kind whose output is a page called `name`."""

    @with_options
    def download_(
        id: IdArgument,
        folder: FolderArgument,
        evidence: Annotated[
            bool,
            typer.Option(
                "--evidence",
                help="Also download everything that it was made from (inputs, outputs, records of the runs), so that "
                "it can be verified on this machine.",
            ),
        ] = False,
        *,
        platform: PlatformOptions,
    ) -> None:
        """Download the page. With --evidence, also all that is needed to check it (`verify`)."""
        if not evidence:
            typer.echo(str(_saved(kind, id, folder, platform) / name))
            return
        with platform.connect() as client, _progress("downloading") as progress:
            collection = getattr(client, kind)
            evidence_files = collection.download_evidence(one_id(client, kind, id), folder, progress=progress)
        for path, reason in evidence_files.not_included.items():
            typer.echo(f"not included: {path}: {reason}", err=True)
        typer.echo(str(folder / name))
        typer.echo(f"check it: steelyard {kind.removesuffix('s')} verify {folder / name}", err=True)

    return download_


def _saved(kind: str, id: str, folder: Path, platform: PlatformOptions) -> Path:
    with platform.connect() as client:
        collection = getattr(client, kind)
        collection.download(one_id(client, kind, id), folder)
    return folder


for _group, _kind, _name in ((report, "reports", "report.html"), (audit, "audits", "index.html")):
    _group.command("open")(_open_command(_kind, _name))
    _group.command("save")(_save_command(_kind, _name))
    _group.command("download")(_download_command(_kind, _name))
safetycase.command("open")(_open_command("safetycases", "index.html"))
safetycase.command("download")(_save_command("safetycases", "index.html"))


class _progress:  # noqa: N801  (a context manager that reads as a verb)
    """A progress bar in a terminal, nothing elsewhere; called with (file, bytes done, bytes in all)."""

    def __init__(self, verb: str) -> None:
        self._verb = verb

    def __enter__(self) -> Callable[[str, int, int], None]:
        import sys

        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

        from steelyard.cli.plain_text import terminal
        from steelyard.errors import one_line

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
