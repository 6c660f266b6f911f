"""`steelyard audit verify`: checks an audit, and each report in it, against their files."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.report_verify import KeyOption, print_checks


def verify(
    file: Annotated[Path, typer.Argument(help="The index.html or audit.json, or their folder.")],
    key: KeyOption = None,
) -> None:
    """Check an audit against the reports that it was made from, and these against their inputs and outputs.

    Says first what cannot be checked and why. Made for what `steelyard audit download ID --evidence DIR` has brought; a
    page that lies alone is checked as far as it goes. Exit status 1 for a fault.
    """
    from steelyard.report.evidence.attestation import public_key
    from steelyard.report.evidence.verify_audit import audit_folder_of, verify_audit

    page = file / "index.html" if file.is_dir() else file
    folder = audit_folder_of(page)
    signer = None if key is None else public_key(key)
    name = page.name if page.suffix in {".html", ".htm"} else "index.html"
    print_checks(verify_audit(folder, signer, name))
