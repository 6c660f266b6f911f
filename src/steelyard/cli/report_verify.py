"""`steelyard report verify`: checks a report against its files."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.module_rubrics import ModuleOption, rubrics_of

if TYPE_CHECKING:
    from steelyard.report.evidence.verify import Check, ReportFolders

MARKS = {"fine": "ok      ", "fault": "FAULT   ", "unchecked": "left out"}
KeyOption = Annotated[
    Path | None,
    typer.Option(
        help="Ed25519 public key (PEM) that must have signed it. Without one, digests are checked, but not who made "
        "them.",
        metavar="FILE",
    ),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder (or GGUF file) of the model: compare every file with what was served.", metavar="FOLDER"
    ),
]


def verify(
    file: Annotated[Path, typer.Argument(help="report.html or report.json, or their folder.")],
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder with inputs/ and outputs/. Default: the folder of the report.", metavar="DIR"
        ),
    ] = None,
    key: KeyOption = None,
    model: ModelOption = None,
    module: ModuleOption = None,
) -> None:
    """Check a report against the files it was made from.

    It says first what cannot be checked and why. Then it counts every row, computes every digest, score and number
    again, and draws the page again. Give the folder of a run, or what `steelyard report download ID --evidence DIR`
    has downloaded; of a page without its files, only a part can be checked. With --model, it says which of the model's
    files are not those that gave the numbers. With --module, the scores of a module's rubric are computed again, too.
    Exit status 1 if a check fails.
    """
    from steelyard.report.evidence.attestation import public_key
    from steelyard.report.evidence.model_files import check_served_model
    from steelyard.report.evidence.verify import folder_of, verify_report

    page = file / "report.html" if file.is_dir() else file
    folders = replace(_report_folders(folder_of(page), page.name, results), model=model)
    if module:
        folders = replace(folders, known=rubrics_of(module, [folders.report / "report.json"]))
    signer = None if key is None else public_key(key)

    async def checks() -> "AsyncIterator[Check]":
        async for check in verify_report(folders, signer):
            yield check
        for check in check_served_model(folders):
            yield check
        async for check in _of_the_run(folders.base, folders.report):
            yield check

    print_checks(checks())


def print_checks(checks: "AsyncIterator[Check]") -> None:
    """Print a line per check as it comes, and their number at the end. Exit status 1 if a check fails."""
    import asyncio

    states: list[str] = []

    async def printed() -> None:
        async for check in checks:
            typer.echo(f"{MARKS[check.state]}  {check.what}")
            states.append(check.state)

    asyncio.run(printed())
    faults, left = states.count("fault"), states.count("unchecked")
    typer.echo(f"{len(states) - faults - left} checks passed, {faults} failed, {left} left out")
    if faults:
        raise typer.Exit(1)


async def _of_the_run(base: Path, report: Path) -> "AsyncIterator[Check]":
    """Checks that only a run's report needs: judges' verdicts, and the cost of the calls."""
    from steelyard.runs.folder import RunFolder

    run = RunFolder(base)
    if not (run.begun and run.verified):
        return
    from steelyard.runs.judge.evidence import verdicts_again
    from steelyard.runs.spending.evidence import spent_again

    request = run.request()
    if (base / "judged").is_dir():
        async for check in verdicts_again(run, request):
            yield check
    for check in spent_again(run, request, report / "report.json"):
        yield check


def _report_folders(folder: Path, page: str, results: Path | None) -> "ReportFolders":
    """The folders of the run; without a run, `inputs` and `outputs` of the results."""
    from steelyard.errors import UsageError
    from steelyard.report.evidence.verify import ReportFolders

    base = (results or folder).absolute()
    if results is not None:
        for name in ("inputs", "outputs"):
            if not (base / name).is_dir():
                raise UsageError(
                    f"--results {results}: has no folder {name}/; it needs inputs/ (the dataset) "
                    "and outputs/ (of the evaluation)"
                )
    outputs = evaluation = base / "outputs"
    # The numbers of a run with judges are made of `judged/`, the outputs with their verdicts.
    if (base / "run.yaml").exists() and outputs.is_dir():
        from steelyard.runs.folder import RunFolder
        from steelyard.runs.judge.output import judged_output

        run = RunFolder(base)
        evaluation = judged_output(run, run.request()).root
    return ReportFolders(
        report=folder.absolute(),
        dataset=base / "inputs",
        evaluation=evaluation,
        errors=outputs,
        run=base,
        page_name=page if page.endswith((".html", ".htm")) else "report.html",
    )
