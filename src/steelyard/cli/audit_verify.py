"""`steelyard audit verify`: checks an audit, and every report in it, against their files."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.extras import needs
from steelyard.cli.module_rubrics import ModuleOption, find_rubrics
from steelyard.cli.report_verify import KeyOption, ModelOption, print_checks


@needs("eval")
def verify(
    file: Annotated[Path, typer.Argument(help="index.html or audit.json, or their folder.")],
    key: KeyOption = None,
    model: ModelOption = None,
    module: ModuleOption = None,
) -> None:
    """Check an audit against the reports that it was made from. These are checked against their inputs and outputs.

    It says first what cannot be checked and why. Give what `steelyard audit download ID --evidence DIR` has downloaded;
    of a page without its files, only a part can be checked. With --model, every report's model files are compared with
    those of the folder. With --module, the scores of rubrics of modules are computed again, too. Exit status 1 if a
    check fails.
    """
    from steelyard_evaluation.report.evidence.attestation import public_key
    from steelyard_evaluation.report.evidence.verify_audit import find_audit_folder, verify_audit

    page = file / "index.html" if file.is_dir() else file
    folder = find_audit_folder(page)
    signer = None if key is None else public_key(key)
    name = page.name if page.suffix in {".html", ".htm"} else "index.html"
    known = find_rubrics(module, sorted(folder.glob("reports/*/report.json"))) if module else None
    print_checks(verify_audit(folder, signer, name, model=model, known=known))
