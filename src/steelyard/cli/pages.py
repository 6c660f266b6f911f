"""`steelyard report, audit, safetycase`: the pages that evaluations end in, and what they were made from."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from steelyard.cli import audit_verify, report_verify, scores, sign
from steelyard.cli.connection import PlatformOptions, one_id
from steelyard.cli.entities import IdArgument
from steelyard.cli.option_groups import with_options
from steelyard.cli.transfer import FolderArgument, _progress

if TYPE_CHECKING:
    from steelyard.client import Client

report = typer.Typer(
    help="Open, download, verify and sign reports.", no_args_is_help=True, rich_markup_mode=None
)
audit = typer.Typer(
    help="Open, download, verify and sign audits.", no_args_is_help=True, rich_markup_mode=None
)
safetycase = typer.Typer(
    help="Open and download safety cases, and show their scores.", no_args_is_help=True, rich_markup_mode=None
)
_TITLES = {"reports": "Report", "safetycases": "Safety case"}


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

        # Not removed at the end: the browser reads the page after this command has gone.
        page = Path(tempfile.mkdtemp(prefix="steelyard-")) / "page" / name
        with platform.connect() as client:
            entity = one_id(client, kind, id)
            getattr(client, kind).download(entity, page.parent)
            foreign = has_foreign_page(client, kind, entity)
        typer.echo(str(page))
        typer.launch((write_frame(page, kind) if foreign else page).as_uri())

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
        typer.echo(str(_save(kind, id, folder, platform) / name))

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
            typer.echo(str(_save(kind, id, folder, platform) / name))
            return
        with platform.connect() as client, _progress("downloading") as progress:
            collection = getattr(client, kind)
            evidence_files = collection.download_evidence(one_id(client, kind, id), folder, progress=progress)
        for path, reason in evidence_files.not_included.items():
            typer.echo(f"not included: {path}: {reason}", err=True)
        typer.echo(str(folder / name))
        typer.echo(f"check it: steelyard {kind.removesuffix('s')} verify {folder / name}", err=True)

    return download_


def _save(kind: str, id: str, folder: Path, platform: PlatformOptions) -> Path:
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

report.command("verify")(report_verify.verify)
audit.command("verify")(audit_verify.verify)
report.command("sign")(sign.sign_report)
audit.command("sign")(sign.sign_audit)
safetycase.command("scores")(scores.scores)


def has_foreign_page(client: "Client", plural: str, id: str) -> bool:
    """Return whether code of users has made the page of an entity."""
    if plural == "reports":
        return bool(client.reports.get(id).modules)  # its rubric is one of theirs
    return plural == "safetycases"


def write_frame(page: Path, plural: str) -> Path:
    """Write a page that shows another one without running its scripts, above its folder; return its path."""
    title = _TITLES[plural]
    frame = page.parent.parent / "open.html"
    source = f"{quote(page.parent.name)}/{quote(page.name)}"
    style = "html, body, iframe { margin: 0; border: 0; width: 100%; height: 100% }"
    head = f'<!doctype html>\n<meta charset="utf-8">\n<title>{title}</title>\n<style>{style}</style>\n'
    frame.write_text(f'{head}<iframe sandbox src="{source}"></iframe>\n')
    return frame
