"""Files of a report: their folders, checks of their digests, and files among them that no evidence names."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

from steelyard_common.types import JsonValue
from steelyard_common.whole_files import TooLarge, read_whole
from steelyard_evaluation.engine import layout
from steelyard_evaluation.report.layout import PAGE
from steelyard_evaluation.report.page import document
from steelyard_evaluation.report.wording import count
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_schema.faults import exception_text

LISTED = 20
"""Most files of one kind that get a line each."""
MOST_NAMED = 10
WORKING = (layout.PARTS, layout.EPOCHS, layout.CHECKPOINTS, layout.PROGRESS)
"""Folders of an output that only the run needed. No number is read from them."""
SPENT = ".spent"
"""Folder of a run with the cost of its calls. Verification of a run compares it with the report."""


@dataclass(frozen=True)
class Check:
    """One line of a verification. `unchecked` is not a fault: the files for this check are not here."""

    what: str
    state: Literal["fine", "fault", "unchecked"] = "fine"


def fault(what: str) -> Check:
    return Check(what, "fault")


async def checks_of_edited(name: str, checks: AsyncIterator[Check]) -> AsyncIterator[Check]:
    """Yield the checks; where the document `name` is not shaped as Steelyard writes it, a fault ends them."""
    try:
        async for check in checks:
            yield check
    except TooLarge as error:
        yield fault(str(error))
    # An editor of a document may put anything anywhere: what cannot be read is a fault of the document, and no failure
    # of this program.
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        yield fault(f"{name}: is not as Steelyard writes it: {exception_text(error)}")


def read_bytes(path: Path) -> bytes | None:
    """Return the content of a file; None if there is none or it cannot be read. Raises TooLarge."""
    try:
        return read_whole(path)
    except OSError:
        return None


@dataclass(frozen=True)
class ReportFolders:
    """Folders of a report's evidence: its own, the dataset's, that of the verified output, and that of row errors."""

    report: Path
    dataset: Path
    evaluation: Path
    errors: Path
    run: Path | None = None
    """Folder of the run, which contains the runs of judges; by default the report's."""
    page_name: str = PAGE
    model: Path | None = None
    """Folder, or file, of the model that was asked; None where the verifier does not have it."""
    known: tuple[EntryPoint, ...] | None = None
    """Rubrics that are known; by default those that are installed."""

    @property
    def page(self) -> Path:
        return self.report / self.page_name

    @property
    def base(self) -> Path:
        return self.run or self.report

    def find_path(self, what: str, path: str) -> Path | None:
        """Return the path of a file that evidence names; None for one in none of these folders (a model)."""
        match what:
            case document.DATASET:
                return self.dataset / path
            case document.OUTPUTS | document.RECORD:
                return self.evaluation / path
            case document.ERRORS:
                return self.errors / path
            case document.SCORES | document.PAGES | document.ASKED | document.RUBRIC_FILES:
                return self.report / path
        return self.base / path if what.startswith(document.FURTHER) else None


@dataclass(frozen=True)
class LeftOut:
    """Files of the evidence that are not here, by their kinds: whoever gave the report to others left them out."""

    files: Mapping[str, Sequence[str]]

    def __contains__(self, what: str) -> bool:
        return what in self.files


def find_left_out(evidence: Sequence[JsonValue], folders: ReportFolders) -> LeftOut:
    """Return the files that are left out: those whose folder is missing as a whole.

    Where there are any, so are missing files that lie beside the report. Any other missing file is a fault.
    """
    together: dict[tuple[str, Path], list[str]] = {}
    for entry in evidence:
        what, path = entry["what"], entry["path"]
        # Of files that lie in none of the folders, files_elsewhere speaks.
        if folders.find_path(what, "x") is not None and not leads_out(path):
            together.setdefault((what, _path(what, path, folders).parent), []).append(path)
    in_part = not all(place.is_dir() for _, place in together)
    files: dict[str, list[str]] = {}
    for (what, place), paths in together.items():
        if not place.is_dir():
            files.setdefault(what, []).extend(paths)
        elif in_part and place == folders.report:
            files.setdefault(what, []).extend(path for path in paths if not (place / path).exists())
    return LeftOut({what: paths for what, paths in files.items() if paths})


def _path(what: str, path: str, folders: ReportFolders) -> Path:
    place = folders.find_path(what, path)
    assert place is not None
    return place


def say_what_is_left_out(left: LeftOut, folders: ReportFolders) -> Iterator[Check]:
    """Name the files that are not here, except for those of dataset and outputs, which other lines name."""
    named_as_outputs = {document.DATASET, document.OUTPUTS}
    # Of a folder that is not here at all, its records are no second loss.
    if not folders.evaluation.is_dir():
        named_as_outputs.add(document.RECORD)
        if folders.errors == folders.evaluation:
            named_as_outputs.add(document.ERRORS)
    for what, paths in left.files.items():
        if what not in named_as_outputs:
            named = paths[0] if len(paths) == 1 else f"{count(len(paths))} files"
            yield Check(f"not here: {what}: {named}", "unchecked")


def check_digests(evidence: Sequence[JsonValue], folders: ReportFolders, left: LeftOut) -> Iterator[Check]:
    """Check the digest of each file that the evidence names, except for those that are left out."""
    digest_of = cache(file_sha256)  # an edited report may name one large file a thousand times
    for what in dict.fromkeys(entry["what"] for entry in evidence):
        lost = left.files.get(what, ())
        entries = [entry for entry in evidence if entry["what"] == what and entry["path"] not in lost]
        if folders.find_path(what, "x") is None:
            continue
        faults = 0
        for entry in entries:
            wrong = file_fault(entry, folders.find_path(what, entry["path"]), digest_of)
            faults += bool(wrong)
            if wrong:
                yield fault(f"{what}: {wrong}")
            elif len(entries) <= LISTED:
                yield Check(f"{what}: {entry['path']}, SHA-256 {entry['sha256'][:12]}…")
        if len(entries) > LISTED:
            right = len(entries) - faults
            yield Check(f"{what}: {count(right)} of {count(len(entries))} files have their SHA-256")


def files_elsewhere(evidence: Sequence[JsonValue], folders: ReportFolders) -> Iterator[Check]:
    """Name the files of the evidence that are never in a report's folder: a model's, unless it was given."""
    for what in dict.fromkeys(entry["what"] for entry in evidence):
        if folders.find_path(what, "x") is None and not (what == document.MODEL and folders.model):
            entries = [entry for entry in evidence if entry["what"] == what]
            files = "file, whose digest is" if len(entries) == 1 else "files, whose digests are"
            how = "; give the model with --model FOLDER" if what == document.MODEL else ""
            yield Check(
                f"not here: {what}: {count(len(entries))} {files} not computed again{how}", "unchecked"
            )


def file_fault(entry: JsonValue, path: Path | None, digest_of: Callable[[Path], str] = file_sha256) -> str:
    """Return what is wrong with a file that evidence names, which lies at `path`; empty if nothing is."""
    if leads_out(entry["path"]):
        return f"{entry['path']} leads out of the folder"
    if path is None or not path.is_file():
        return f"{entry['path']} is missing" + (f" ({path})" if path else "")
    sha256 = digest_of(path)
    if sha256 != entry["sha256"]:
        return f"{entry['path']} has the SHA-256 {sha256[:12]}… instead of {entry['sha256'][:12]}…"
    return ""


def leads_out(path: str) -> bool:
    """Return whether a path leads out of its folder.

    The report may come from anybody: no path in it may make the verification read files elsewhere.
    """
    return Path(path).is_absolute() or ".." in Path(path).parts


def extra_files(evidence: Sequence[JsonValue], folders: ReportFolders) -> Iterator[Check]:
    """Name files among the evidence that the report does not name."""
    named = {
        path.absolute()
        for entry in evidence
        if (path := folders.find_path(entry["what"], entry["path"])) is not None
    }
    # A file that nothing names changes no number, but a person who reads the folder may take it for evidence.
    extra = sorted(path for path in _files_present(folders) if path.absolute() not in named)
    for path in extra[:MOST_NAMED]:
        yield Check(
            f"extra file: {_relative_name(path, folders)}: the evidence does not name it", "unchecked"
        )
    if len(extra) > MOST_NAMED:
        yield Check(f"extra files: {count(len(extra) - MOST_NAMED)} more", "unchecked")


def _files_present(folders: ReportFolders) -> Iterator[Path]:
    for folder in {folders.dataset, folders.evaluation, folders.errors}:
        yield from (path for path in _files_below(folder) if not _is_working(path, folder))
    for name in ("judges", "judged"):
        folder = folders.base / name
        yield from (path for path in _files_below(folder) if not _is_working(path, folder))
    for pattern in ("scores*.parquet", "rows/*", f"{document.RUBRIC_FOLDER}/*"):
        yield from folders.report.glob(pattern)


def _files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else iter(())


def _is_working(path: Path, folder: Path) -> bool:
    """Return True for files that only the run needed, of the output or of a judge's, and for its counters of calls."""
    if SPENT in path.relative_to(folder).parts:
        return True
    inside_output = path.relative_to(folder).as_posix().rpartition("outputs/")[2]
    return any(inside_output.startswith(name) for name in WORKING)


def _relative_name(path: Path, folders: ReportFolders) -> str:
    for folder in (folders.base, folders.report):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return str(path)
