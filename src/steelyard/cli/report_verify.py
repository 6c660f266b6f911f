"""`steelyard report verify`: checks a report against its files."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.extras import needs
from steelyard.cli.module_rubrics import ModuleOption, find_rubrics

if TYPE_CHECKING:
    from steelyard_evaluation.report.evidence.verify import Check, ReportFolders

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
        help="Folder (or GGUF file) of the model: compare every file with the served one.", metavar="FOLDER"
    ),
]


@needs("eval")
def verify(
    file: Annotated[
        Path,
        typer.Argument(
            help="report.html or report.json, or their folder; or the page of a comparison of runs."
        ),
    ],
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder with inputs/ and outputs/, or with the runs of a comparison. Default: the folder of the page.",
            metavar="DIR",
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
    The page of `steelyard eval compare --output` is checked against the folders of its runs. Exit status 1 if a check
    fails.
    """
    from steelyard_common.errors import UsageError
    from steelyard_evaluation.report.evidence.attestation import public_key
    from steelyard_evaluation.report.evidence.files import fault
    from steelyard_evaluation.report.evidence.model_files import check_served_model
    from steelyard_evaluation.report.evidence.verify import find_report_folder, verify_report

    page = file / "report.html" if file.is_dir() else file
    if (checks_of_page := _comparison(page, results, only_reports=bool(key or model or module))) is not None:
        print_checks(checks_of_page)
        return
    folders = replace(report_folders(find_report_folder(page), page.name, results), model=model)
    if module:
        folders = replace(folders, known=find_rubrics(module, [folders.report / "report.json"]))
    signer = None if key is None else public_key(key)

    async def checks() -> "AsyncIterator[Check]":
        async for check in verify_report(folders, signer):
            yield check
        for check in check_served_model(folders):
            yield check
        try:
            async for check in _run_checks(folders):
                yield check
        # What is wrong with a file of the run is no fault of the command.
        except (UsageError, OSError) as error:
            yield fault(str(error))

    print_checks(checks())


def _comparison(page: Path, results: Path | None, *, only_reports: bool) -> "AsyncIterator[Check] | None":
    """Return the checks of a comparison's page; None for any other file, and for none."""
    from steelyard_common.errors import UsageError
    from steelyard_common.whole_files import read_whole
    from steelyard_evaluation.report.page.page import numbers_inside
    from steelyard_evaluation.runs.comparison_evidence import is_comparison, verify_comparison

    if page.suffix not in {".html", ".htm"} or not page.is_file():
        return None
    content = read_whole(page)
    if numbers_inside(content, "audit") is not None:
        raise UsageError(f"{page}: is the page of an audit: steelyard audit verify {page}")
    if not is_comparison(content):
        return None
    if only_reports:
        raise UsageError(
            f"{page}: is the page of a comparison, for which there is no --key, --model or --module"
        )
    return _asynchronously(verify_comparison(page, results or page.parent))


async def _asynchronously(checks: "Iterable[Check]") -> "AsyncIterator[Check]":
    for check in checks:
        yield check


def print_checks(checks: "AsyncIterator[Check]") -> None:
    """Print a line per check as it comes, and their number at the end. Exit status 1 if a check fails."""
    import asyncio

    states: list[str] = []

    async def print_all() -> None:
        async for check in checks:
            typer.echo(f"{MARKS[check.state]}  {check.what}")
            states.append(check.state)

    asyncio.run(print_all())
    faults, left = states.count("fault"), states.count("unchecked")
    typer.echo(f"{len(states) - faults - left} checks passed, {faults} failed, {left} left out")
    if faults:
        raise typer.Exit(1)


async def _run_checks(folders: "ReportFolders") -> "AsyncIterator[Check]":
    """Checks that only a run's report needs: judges' verdicts, and the cost of the calls."""
    from steelyard_evaluation.report.evidence.files import Check, find_left_out
    from steelyard_evaluation.report.evidence.verify import read_numbers
    from steelyard_evaluation.report.page import document
    from steelyard_evaluation.runs.folder import RUN_FILE, RunFolder
    from steelyard_evaluation.runs.judge.evidence import verdicts_again
    from steelyard_evaluation.runs.judge.output import JUDGED
    from steelyard_evaluation.runs.spending.evidence import check_spending

    run = RunFolder(folders.base)
    request = run.request() if run.begun else None
    if folders.evaluation.name == JUDGED:
        left = find_left_out((read_numbers(folders) or {}).get("evidence", ()), folders).files
        missing = [what for what in left if what != document.PAGES]
        if request is not None and run.verified and not missing:
            async for check in verdicts_again(run, request):
                yield check
        else:
            # By kinds: judges/ itself may be here.
            kinds = ", ".join(missing) or RUN_FILE
            yield Check(f"no verdict is read again, because these are not here: {kinds}", "unchecked")
    for check in check_spending(run, request, folders.report / "report.json"):
        yield check


def report_folders(folder: Path, page: str, results: Path | None) -> "ReportFolders":
    """Return the folders of the run; without a run, `inputs` and `outputs` of the results."""
    from steelyard_common.errors import UsageError
    from steelyard_evaluation.report.evidence.verify import ReportFolders

    base = (results or folder).absolute()
    if results is not None:
        for name in ("inputs", "outputs"):
            if not (base / name).is_dir():
                raise UsageError(
                    f"--results {results}: has no folder {name}/; it needs inputs/ (the dataset) "
                    "and outputs/ (of the evaluation)"
                )
    page_name = page if page.endswith((".html", ".htm")) else "report.html"
    folders = ReportFolders(
        report=folder.absolute(),
        dataset=base / "inputs",
        evaluation=base / "outputs",
        errors=base / "outputs",
        run=base,
        page_name=page_name,
    )
    return replace(folders, evaluation=base / "judged") if _is_of_verdicts(folders) else folders


def _is_of_verdicts(folders: "ReportFolders") -> bool:
    """Return whether the numbers are made of `judged/`, the outputs with their verdicts: the report itself says so."""
    from steelyard_evaluation.report.evidence.verify import read_numbers
    from steelyard_evaluation.runs.judge.evidence import BEFORE_JUDGING

    evidence = (read_numbers(folders) or {}).get("evidence", ())
    return any(entry.get("what") == BEFORE_JUDGING for entry in evidence)
