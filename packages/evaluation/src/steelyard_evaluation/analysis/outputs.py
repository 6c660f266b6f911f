"""Checks what a method has left in its output folder, before any of it is published."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from steelyard_common.bounded_parquet import open_parquet
from steelyard_evaluation.analysis.errors import output_invalid
from steelyard_evaluation.analysis.notebook import PAGE
from steelyard_evaluation.analysis.scores import check_records
from steelyard_evaluation.analysis.tables import parse_declared_schema
from steelyard_evaluation.analysis.workspace import CURVES, SCORES, Workspace
from steelyard_evaluation.storage.folder_walk import TEMPORARY
from steelyard_evaluation.storage.store import BadLocation, check_key
from steelyard_schema.analysis import AnalysisFields
from steelyard_schema.names import OWN_LOGS, OWN_RECORDS, WHOLE_LOG

MOST_FILES = 10_000
MOST_BYTES = 100 << 30
"""Maximum bytes of all files of an output."""
MOST_PAGE_BYTES = 256 << 20
"""Maximum bytes of the page of a safety case."""
_OURS = {SCORES, CURVES, WHOLE_LOG}
"""Files in the platform's own folders that a method may write; a log of its own is not published."""


@dataclass(frozen=True)
class Outputs:
    """Checked files of a method by their paths in the output, and the content of scores and curves."""

    files: Mapping[str, Path]
    records: Mapping[str, bytes] = field(default_factory=dict)
    rows: int | None = None
    """Rows of a measurement."""


def check_outputs(workspace: Workspace, fields: AnalysisFields) -> Outputs:
    """Return the published files of the output folder. Raises AnalysisFailed, which names the file. Blocking."""
    files = list_files(workspace.output)
    records = check_records(workspace.output, workspace.id, fields)
    output = fields.method.output
    if output.measurement is not None:
        schema = parse_declared_schema(output.measurement.schema_.arrowSchema)
        return Outputs(files, records, _count_rows(files, schema))
    _check_page(files)
    return Outputs(files, records)


def list_files(folder: Path) -> dict[str, Path]:
    """Return the files of an output by their paths. Raises AnalysisFailed for any that cannot be published."""
    return dict(_files(folder))


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield all files but those of the platform's own folders."""
    count, size = 0, 0
    for entry in _entries(folder):
        path = os.path.relpath(entry.path, folder)
        _check_path(path)
        facts = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(facts.st_mode):
            raise output_invalid(f"{path} is a symbolic link to {os.readlink(entry.path)}; none are allowed")
        if not stat.S_ISREG(facts.st_mode):
            raise output_invalid(f"{path} should be a regular file")
        count, size = count + 1, size + facts.st_size
        if count > MOST_FILES:
            raise output_invalid(f"the output has more than {MOST_FILES} files")
        if size > MOST_BYTES:
            raise output_invalid(f"the output has more than {MOST_BYTES} bytes")
        if path.startswith((OWN_RECORDS, OWN_LOGS)):
            if path not in _OURS:
                raise output_invalid(
                    f"{path} lies in the platform's own folder; {', '.join(sorted(_OURS))} may"
                )
            continue
        yield path, Path(entry.path)


def _entries(folder: Path) -> Iterator["os.DirEntry[str]"]:
    folders = [str(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield entry
        except PermissionError as error:
            raise output_invalid(f"{error.filename} cannot be read") from error


def _check_path(path: str) -> None:
    try:
        check_key(path)
        path.encode()
    except (BadLocation, UnicodeEncodeError) as error:
        raise output_invalid(f"{path!r}: is not a name of a file that can be stored: {error}") from error
    if any(part.startswith(TEMPORARY) for part in path.split("/")):
        raise output_invalid(f"{path!r}: names that begin with {TEMPORARY} are those of half-written files")


def _count_rows(files: Mapping[str, Path], schema: pa.Schema) -> int:
    """Return the number of rows of a measurement, all of whose files have the schema. Raises AnalysisFailed."""
    visible = {path: file for path, file in files.items() if not path.startswith(".") and "/." not in path}
    if not visible:
        raise output_invalid("the method has made no rows: there is no Parquet file in the output")
    rows = 0
    for path, file in visible.items():
        if not path.endswith(".parquet"):
            raise output_invalid(
                f"{path}: a measurement has Parquet files alone; names with a dot are left out"
            )
        rows += _check_file(path, file, schema)
    return rows


def _check_file(path: str, file: Path, schema: pa.Schema) -> int:
    try:
        with open_parquet(file) as parquet:
            there, rows = parquet.schema_arrow, parquet.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise output_invalid(f"{path}: cannot be read as Parquet: {error}") from error
    # Columns that the path names, as in `_replication_=…/part-0.parquet`, are not in the file.
    named = {part.partition("=")[0] for part in path.split("/")[:-1] if "=" in part}
    expected = {field.name: field.type for field in schema if field.name not in named}
    types = dict(zip(there.names, there.types, strict=True))
    for name in {**expected, **types}:
        if (is_there := types.get(name)) != (declared := expected.get(name)):
            raise output_invalid(
                f"{path}: column {name} is {is_there or 'missing'}; the method declares {declared or 'none'}"
            )
    return rows


def _check_page(files: Mapping[str, Path]) -> None:
    if PAGE not in files:
        raise output_invalid(f"the method has made no page: there is no {PAGE} in the output")
    if (size := files[PAGE].stat().st_size) > MOST_PAGE_BYTES:
        raise output_invalid(f"{PAGE} has {size} bytes; at most {MOST_PAGE_BYTES} are allowed")
