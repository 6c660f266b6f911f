"""Files that a report depends on in addition to dataset and outputs: those that rubrics read, and the outputs' own
inputs."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from steelyard_evaluation.engine.manifest import FileEntry
from steelyard_evaluation.report.page.document import RUBRIC_FOLDER
from steelyard_evaluation.report.results import Rubric
from steelyard_evaluation.report.rubrics.calls import rubric_code
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.store import Store


def copy_rubric_files(rubrics: Sequence[Rubric], where: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """Copy the files that the rubrics read into `folder`, and return the copies by the name that was given for each.

    `where` has the present path of a file by its given name, if it is another. Copies have the files' own names, with a
    number if two have the same name.
    """
    names = {path: name for name, path in where.items()}
    copies: dict[str, Path] = {}
    for rubric in rubrics:
        with rubric_code(type(rubric), "in files"):
            files = tuple(getattr(rubric, "files", ()))
        for path in files:
            # Recorded under the name in the rubric's argument, so that scoring again asks for it by the same
            # one.
            name = names.get(path, path)
            # Two rubrics may read the same file; the report keeps one copy of it.
            if name not in copies:
                target = _free_path(folder / RUBRIC_FOLDER, Path(name).name, set(copies.values()))
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, target)
                copies[name] = target
    return copies


async def further_files(
    further: Mapping[str, Sequence[str]], store: Store | None
) -> tuple[tuple[str, FileEntry], ...]:
    """Return these files with their digests, each with its kind of evidence."""
    if store is None:
        return ()
    entries = []
    for what, paths in further.items():
        for path in paths:
            data = await store.get(path)
            digest = hashlib.sha256(data).hexdigest()
            entries.append((what, FileEntry(path=path, size=len(data), sha256=digest, rows=0)))
    return tuple(entries)


def file_entry(path: Path, name: str, rows: int = 0) -> FileEntry:
    return FileEntry(path=name, size=path.stat().st_size, sha256=file_sha256(path), rows=rows)


def _free_path(folder: Path, name: str, taken: set[Path]) -> Path:
    number, path = 2, folder / name
    while path in taken:
        path = folder / f"{number}-{name}"
        number += 1
    return path
