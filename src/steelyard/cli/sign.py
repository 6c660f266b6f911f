"""`steelyard report sign`, `steelyard audit sign`: sign a report or an audit that was checked."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.extras import needs

if TYPE_CHECKING:
    from steelyard_evaluation.report.evidence.files import Check

KeyOption = Annotated[
    Path,
    typer.Option("--sign-key", metavar="FILE", help="Ed25519 private key (PEM) that signs the attestation."),
]


@needs("eval")
def sign_report(
    file: Annotated[Path, typer.Argument(help="report.html or report.json, or their folder.")],
    sign_key: KeyOption,
) -> None:
    """Sign a report that was checked. Its attestation then says whose key vouches for its digests."""
    from steelyard.cli.report_verify import report_folders
    from steelyard_evaluation.report.evidence.report_statement import report_statement
    from steelyard_evaluation.report.evidence.verify import check_files, find_report_folder

    folder = find_report_folder(file / "report.html" if file.is_dir() else file)
    with refuse_if_changed(folder):
        checks = list(check_files(report_folders(folder, "report.html", None)))
    _sign(folder, ("report.html", "report.json"), report_statement, checks, sign_key)


@needs("eval")
def sign_audit(
    file: Annotated[Path, typer.Argument(help="index.html or audit.json, or their folder.")],
    sign_key: KeyOption,
) -> None:
    """Sign an audit that was checked. Its attestation then says whose key vouches for its digests."""
    from steelyard_evaluation.report.evidence.audit_statement import audit_statement
    from steelyard_evaluation.report.evidence.verify_audit import check_audit_files, find_audit_folder

    folder = find_audit_folder(file / "index.html" if file.is_dir() else file)
    with refuse_if_changed(folder):
        checks = list(check_audit_files(folder))
    _sign(folder, ("index.html", "audit.json"), audit_statement, checks, sign_key)


@contextmanager
def refuse_if_changed(folder: Path) -> Iterator[None]:
    """Raise UsageError for documents that are not shaped as Steelyard writes them."""
    from steelyard_common.errors import UsageError

    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{folder}: cannot be signed: {type(error).__name__}: {error}") from error


def _sign(
    folder: Path,
    names: tuple[str, str],
    state: Callable[[bytes, bytes], bytes],
    checks: "Sequence[Check]",
    key: Path,
) -> None:
    import asyncio

    from steelyard_common.errors import UsageError
    from steelyard_common.whole_files import read_whole
    from steelyard_evaluation.report.evidence.attestation import (
        BadAttestation,
        envelope,
        key_id,
        read_payload,
        signing_key,
    )
    from steelyard_evaluation.report.evidence.report_statement import ATTESTATION
    from steelyard_evaluation.storage.files import FileStore

    signer = signing_key(key)
    try:
        # Read once: what is signed are the bytes that the statement was made of.
        page, numbers = (read_whole(folder / name) for name in names)
        statement = state(page, numbers)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError(f"{folder / names[1]}: cannot be signed: {type(error).__name__}: {error}") from error
    # A signature vouches for digests: they have to be those of the files, and of the statement that was made with them.
    for check in checks:
        if check.state == "fault":
            raise UsageError(f"{folder}: was changed and is not signed: {check.what}")
    attestation = folder / ATTESTATION
    try:
        same = not attestation.exists() or read_payload(read_whole(attestation))[0] == statement
    except (OSError, BadAttestation) as error:
        raise UsageError(f"{attestation}: {error}; without it, the report can be signed") from error
    if not same:
        raise UsageError(
            f"{folder}: was changed and is not signed: {ATTESTATION} is not the statement about these files"
        )
    asyncio.run(FileStore(folder.absolute()).put(ATTESTATION, envelope(statement, signer)))
    typer.echo(f"{folder / ATTESTATION}: signed by the key {key_id(signer.public_key())[:12]}…")
