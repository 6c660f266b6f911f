"""Files of a report: their places, their digests, and files among them that no evidence names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from steelyard.evaluation import layout
from steelyard.report.page import document
from steelyard.report.report import PAGE
from steelyard.report.wording import count
from steelyard.storage.digest import sha256_of
from steelyard.types import JsonValue

LISTED = 20
"""Files of one sort that get a line each."""
MOST_NAMED = 10
WORKING = (layout.PARTS, layout.EPOCHS, layout.CHECKPOINTS, layout.PROGRESS)
"""Folders of an output that the run worked with. No number is read from them."""
SPENT = ".spent"
"""Folder of a run: what its calls cost. Verification of a run compares it with the report."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `left out` is no fault: it could not be looked at."""

    what: str
    state: Literal["fine", "fault", "left out"] = "fine"


def fault(what: str) -> Check:
    return Check(what, "fault")


def read_bytes(path: Path) -> bytes | None:
    """Content of a file; None where there is none or it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


@dataclass(frozen=True)
class Places:
    """Folders of the files: the report's own, the dataset, the verified output, the records of row errors."""

    report: Path
    dataset: Path
    evaluation: Path
    errors: Path
    run: Path | None = None
    """The folder of the run, where judges' runs lie; by default the report's."""
    page_name: str = PAGE

    @property
    def page(self) -> Path:
        return self.report / self.page_name

    @property
    def base(self) -> Path:
        return self.run or self.report

    def of(self, what: str, path: str) -> Path | None:
        """The file that a line of evidence names; None where it is in none of these folders (a model)."""
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


def digests(evidence: Sequence[JsonValue], places: Places) -> Iterator[Check]:
    """A line for each file that evidence names, and whose folder is here."""
    for what in dict.fromkeys(entry["what"] for entry in evidence):
        entries = [entry for entry in evidence if entry["what"] == what]
        if not _here(what, places):
            continue
        faults = 0
        for entry in entries:
            wrong = _digest_fault(entry, places)
            faults += bool(wrong)
            if wrong:
                yield fault(f"{what}: {wrong}")
            elif len(entries) <= LISTED:
                yield Check(f"{what}: {entry['path']}, SHA-256 {entry['sha256'][:12]}…")
        if len(entries) > LISTED:
            right = len(entries) - faults
            yield Check(f"{what}: {count(right)} of {count(len(entries))} files have their SHA-256")


def elsewhere(evidence: Sequence[JsonValue], places: Places) -> Iterator[Check]:
    """Files that the evidence names and that are no part of a report's folder: a model's."""
    for what in dict.fromkeys(entry["what"] for entry in evidence):
        if places.of(what, "x") is None:
            entries = [entry for entry in evidence if entry["what"] == what]
            files = "file, whose digest is" if len(entries) == 1 else "files, whose digests are"
            yield Check(f"not here: {what}: {count(len(entries))} {files} not computed again", "left out")


def _here(what: str, places: Places) -> bool:
    """False for a folder that is missing as a whole: one line has said so before. A missing file in one is a fault."""
    match what:
        case document.DATASET:
            return places.dataset.is_dir()
        case document.OUTPUTS | document.RECORD:
            return places.evaluation.is_dir()
        case document.ERRORS:
            return places.errors.is_dir()
    return places.of(what, "x") is not None


def _digest_fault(entry: JsonValue, places: Places) -> str:
    inside = Path(entry["path"])
    if inside.is_absolute() or ".." in inside.parts:
        return f"{entry['path']} leads out of the folder"
    path = places.of(entry["what"], entry["path"])
    if path is None or not path.is_file():
        return f"{entry['path']} is missing" + (f" ({path})" if path else "")
    sha256 = sha256_of(path)
    if sha256 != entry["sha256"]:
        return f"{entry['path']} has the SHA-256 {sha256[:12]}… instead of {entry['sha256'][:12]}…"
    return ""


def extra_files(evidence: Sequence[JsonValue], places: Places) -> Iterator[Check]:
    """Files beside the evidence that look like a part of it, and that nothing was made from."""
    named = {
        path.absolute() for entry in evidence if (path := places.of(entry["what"], entry["path"])) is not None
    }
    extra = sorted(path for path in _lying_there(places) if path.absolute() not in named)
    for path in extra[:MOST_NAMED]:
        yield Check(f"extra file: {_shown(path, places)}: the evidence does not name it", "left out")
    if len(extra) > MOST_NAMED:
        yield Check(f"extra files: {count(len(extra) - MOST_NAMED)} more", "left out")


def _lying_there(places: Places) -> Iterator[Path]:
    for folder in {places.dataset, places.evaluation, places.errors}:
        yield from (path for path in _files_below(folder) if not _is_working(path, folder))
    for name in ("judges", "judged"):
        folder = places.base / name
        yield from (path for path in _files_below(folder) if not _is_working(path, folder))
    for pattern in ("scores*.parquet", "rows/*", f"{document.RUBRIC_FOLDER}/*"):
        yield from places.report.glob(pattern)


def _files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else iter(())


def _is_working(path: Path, folder: Path) -> bool:
    """True below `.steelyard/` of the output or of a judge's, and for the counters of a judge's calls."""
    inside = path.relative_to(folder).as_posix()
    if SPENT in path.relative_to(folder).parts:
        return True
    _, own, rest = inside.rpartition("outputs/") if "outputs/" in inside else ("", "", inside)
    return any((rest if own else inside).startswith(name) for name in WORKING)


def _shown(path: Path, places: Places) -> str:
    for folder in (places.base, places.report):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return str(path)
