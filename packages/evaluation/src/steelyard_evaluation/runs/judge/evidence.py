"""The judges' runs as evidence of a report: which files the verdicts came from, and whether they still give the same.

`judged/` is made of the run's outputs and of each judge's answers. A report of verdicts names all of these files by
their digests; `report verify` reads the verdicts again.
"""

import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.recount import recount
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.evidence.files import Check, fault
from steelyard_evaluation.report.evidence.recomputation import UNREADABLE
from steelyard_evaluation.report.page.document import FURTHER
from steelyard_evaluation.runs.folder import RUN_FILE, Run, RunFolder, read_manifest
from steelyard_evaluation.runs.judge.output import JUDGED, find_judged_output, write_judged
from steelyard_evaluation.runs.judge.questions import QUESTIONS, question_lines
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.judge.verdicts import read_verdicts
from steelyard_evaluation.runs.request import RunRequest
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.files import FileStore

BEFORE_JUDGING = f"{FURTHER}before judging"
"""Kind of evidence of a report whose numbers are made of `judged/`."""


def judging_files(folder: RunFolder, request: RunRequest) -> dict[str, tuple[str, ...]]:
    """The files that the output with verdicts was made from, by what they are; none where no rubric reads verdicts."""
    if find_judged_output(folder, request).root != folder.path.absolute() / JUDGED:
        return {}
    files = {BEFORE_JUDGING: _answers(folder, folder.path)}
    for judge in request.judges:
        its = folder.judge(judge.name)
        extra = [its.path / name for name in (RUN_FILE, QUESTIONS) if (its.path / name).exists()]
        inside = [*extra, *sorted((its.path / "inputs").rglob("*.parquet"))]
        name = "" if judge.name == "judge" else f" {judge.name}"
        files[f"{FURTHER}of the judge{name}"] = (
            *_paths(inside, folder.path),
            *_answers(its, folder.path),
        )
    return files


def _answers(folder: RunFolder, base: Path) -> tuple[str, ...]:
    """Verified answers, the records of the run, and those of row errors."""
    outputs = folder.path / "outputs"
    records = [path for name in (layout.MANIFEST, layout.RUN) if (path := outputs / name).exists()]
    errors = (
        sorted((outputs / layout.ERRORS).glob("*")) if folder.path != base else []
    )  # else named as row errors
    return _paths([*sorted(outputs.glob("part-*.parquet")), *records, *errors], base)


def _paths(files: list[Path], base: Path) -> tuple[str, ...]:
    return tuple(path.relative_to(base).as_posix() for path in files)


async def verdicts_again(folder: RunFolder, request: RunRequest) -> AsyncIterator[Check]:
    """Every verdict read once more from the judges' answers, and every answer of theirs counted."""
    if find_judged_output(folder, request).root != folder.path.absolute() / JUDGED:
        return
    try:
        run = Run(folder)
        for sentence in (await recount(run.manifest, folder.inputs, folder.outputs)).faults:
            yield fault(f"outputs/, before judging: {sentence}")
        for judge in request.judges:
            async for check in _check_questions(run, judge):
                yield check
        yield await _check_verdicts(run, request)
    except (*UNREADABLE, ValidationError) as error:
        yield fault(f"reading verdicts again: {error}")


async def check_judged(folder: RunFolder, request: RunRequest) -> None:
    """ReportFailed where the verdicts are not those that the judges gave on the answers of the run."""
    async for check in verdicts_again(folder, request):
        if check.state == "fault":
            raise ReportFailed("OutputInvalid", check.what)


async def _check_questions(run: Run, judge: JudgeSpec) -> AsyncIterator[Check]:
    folder, name = run.folder.judge(judge.name), f"judges/{judge.name}"
    # Made again from the answers and the template: a file that was edited would have put other questions to
    # the judge.
    if not _is_made_of(folder.path / QUESTIONS, question_lines(run, judge)):
        yield fault(f"{name}/{QUESTIONS}: is not what the judge is to be asked about these answers")
        return
    manifest = read_manifest(folder.manifest)
    counted = await recount(manifest, folder.inputs, folder.outputs)
    for sentence in counted.faults:
        yield fault(f"{name}: {sentence}")
    if not counted.faults:
        times = "once" if judge.times == 1 else f"{judge.times} times"
        yield Check(f"{name}: was asked {counted.questions} questions, each {times}, as its template says")


async def _check_verdicts(run: Run, request: RunRequest) -> Check:
    with tempfile.TemporaryDirectory(prefix="steelyard-verdicts-") as scratch:
        verdicts = [read_verdicts(run.folder.judge(judge.name), run, judge) for judge in request.judges]
        again = FileStore(Path(scratch))
        await write_judged(run, request.judges, verdicts, again)
        # Byte for byte: `write_judged` gives the same file for the same verdicts.
        differing = list(_differing(again.root, run.folder.path / JUDGED))
    if differing:
        return fault(f"{JUDGED}/{differing[0]}: the judges' answers give other verdicts than stand there")
    answers = max((len(judged) for judged in verdicts), default=0)
    return Check(f"{JUDGED}/: verdicts on {answers} answers read again from the judges' answers are the same")


def _is_made_of(path: Path, lines: Iterable[bytes]) -> bool:
    with path.open("rb") as file:
        return all(file.read(len(line)) == line for line in lines) and not file.read(1)


def _differing(recomputed: Path, recorded: Path) -> Iterator[str]:
    for path in sorted(recomputed.rglob("*")):
        inside = path.relative_to(recomputed)
        if path.is_file() and _sha256(path) != _sha256(recorded / inside):
            yield inside.as_posix()


def _sha256(path: Path) -> str:
    return file_sha256(path) if path.is_file() else ""
