"""`steelyard report verify`: whether a report is what its files say."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from steelyard.report.verify import Places

MARKS = {"fine": "ok      ", "fault": "FAULT   ", "left out": "left out"}


def verify(
    file: Annotated[Path, typer.Argument(help="The report.html or report.json, or their folder.")],
    results: Annotated[
        Path | None,
        typer.Option(
            help="The folder with inputs/ and outputs/; by default the report's own.", metavar="DIR"
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Ed25519 public key (PEM) that must have signed it.", metavar="FILE")
    ] = None,
) -> None:
    """Check a report: digests, every score and number once more, the page byte by byte. Exit status 1 for a fault."""
    import asyncio

    from steelyard.report.attest import public_key
    from steelyard.report.verify import Check, folder_of, verify_report

    places = _places(folder_of(file / "report.html" if file.is_dir() else file), results)
    signer = None if key is None else public_key(key)

    async def checked() -> list[Check]:
        found = []
        async for check in verify_report(places, signer):
            typer.echo(f"{MARKS[check.state]}  {check.what}")
            found.append(check)
        return found

    checks = asyncio.run(checked())
    faults, left = (sum(check.state == state for check in checks) for state in ("fault", "left out"))
    typer.echo(f"{len(checks) - faults - left} checks passed, {faults} failed, {left} left out")
    if faults:
        raise typer.Exit(1)


def _places(folder: Path, results: Path | None) -> "Places":
    """Of a run its own folders; else `inputs` and `outputs` of the results."""
    from steelyard.errors import UsageError
    from steelyard.report.verify import Places

    base = results or folder
    for name in ("inputs", "outputs"):
        if not (base / name).is_dir():
            raise UsageError(
                f"--results {base}: has no folder {name}/; it needs inputs/ (the dataset) "
                "and outputs/ (of the evaluation)"
            )
    evaluation = base / "outputs"
    if (base / "run.yaml").exists():
        from steelyard.runs.folder import RunFolder
        from steelyard.runs.judged import judged_output

        run = RunFolder(base)
        evaluation = judged_output(run, run.request()).root
    places = (folder, base / "inputs", evaluation, base / "outputs")
    return Places(*(path.absolute() for path in places))
