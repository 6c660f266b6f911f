"""`steelyard report sign`, `steelyard audit sign`: sign what was checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

KeyOption = Annotated[
    Path,
    typer.Option("--sign-key", metavar="FILE", help="Ed25519 private key (PEM) that signs the attestation."),
]


def sign_report(
    file: Annotated[Path, typer.Argument(help="report.html or report.json, or their folder.")],
    sign_key: KeyOption,
) -> None:
    """Sign a report that was checked. Its attestation then says whose key vouches for its digests."""
    from steelyard.report.evidence.report_statement import report_statement
    from steelyard.report.evidence.verify import folder_of

    folder = folder_of(file / "report.html" if file.is_dir() else file)
    _sign(folder, ("report.html", "report.json"), report_statement, sign_key)


def sign_audit(
    file: Annotated[Path, typer.Argument(help="index.html or audit.json, or their folder.")],
    sign_key: KeyOption,
) -> None:
    """Sign an audit that was checked. Its attestation then says whose key vouches for its digests."""
    from steelyard.report.evidence.audit_statement import audit_statement
    from steelyard.report.evidence.verify_audit import audit_folder_of

    folder = audit_folder_of(file / "index.html" if file.is_dir() else file)
    _sign(folder, ("index.html", "audit.json"), audit_statement, sign_key)


def _sign(folder: Path, names: tuple[str, str], state: Callable[[bytes, bytes], bytes], key: Path) -> None:
    import asyncio

    from steelyard.errors import UsageError
    from steelyard.report.evidence.attestation import envelope, key_id, signing_key
    from steelyard.report.evidence.report_statement import ATTESTATION
    from steelyard.storage.files import FileStore

    signer = signing_key(key)
    try:
        # Read once: what is signed are the bytes that the statement was made of.
        page, numbers = ((folder / name).read_bytes() for name in names)
        statement = state(page, numbers)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError(f"{folder / names[1]}: cannot be signed: {type(error).__name__}: {error}") from error
    asyncio.run(FileStore(folder.absolute()).put(ATTESTATION, envelope(statement, signer)))
    typer.echo(f"{folder / ATTESTATION}: signed by the key {key_id(signer.public_key())[:12]}…")
