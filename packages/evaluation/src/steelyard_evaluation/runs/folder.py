"""The folder of a run: where everything lies in it, and how its rows are read.

RUN/run.yaml the request RUN/inputs/part-00000.parquet    the rows asked: `_index_` first, then the columns of the
prompt file RUN/outputs/                     the engine's output store RUN/report.html, report.json, scores.parquet,
attestation.json RUN/judges/<name>/               runs of judge models, the same layout
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import orjson
import pyarrow as pa
import yaml

from steelyard_common.bounded_parquet import batches, open_parquet, read_table
from steelyard_common.bounded_yaml import fault_text, load
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue, value_text
from steelyard_common.whole_files import TooLarge, check_values, parse_json, read_whole
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.indexes import ABSENT, IndexMap
from steelyard_evaluation.engine.manifest import FileEntry, Manifest
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.shape import INDEX, REPLICATION, RESPONSES
from steelyard_evaluation.engine.source import Source
from steelyard_evaluation.report.evidence.attestation import BadAttestation, read_payload, read_stated_digest
from steelyard_evaluation.report.layout import NUMBERS
from steelyard_evaluation.runs.request import RunRequest, from_document, to_document
from steelyard_evaluation.storage.checked import DigestMismatch, check_record
from steelyard_evaluation.storage.digest import sha256_of_all
from steelyard_evaluation.storage.files import FileStore
from steelyard_schema.faults import error_text

BATCH = 4096
RUN_FILE = "run.yaml"
INPUTS_FILE = "part-00000.parquet"
_MEND = "Put it back, or move it away and repeat the command that began the run"


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run, whether anything is there yet or not."""

    path: Path

    @property
    def file(self) -> Path:
        return self.path / RUN_FILE

    @property
    def inputs(self) -> FileStore:
        """The dataset, as the engine and reports read it."""
        return FileStore(self.path.absolute() / "inputs")

    @property
    def outputs(self) -> FileStore:
        return FileStore(self.path.absolute() / "outputs")

    @property
    def root(self) -> FileStore:
        """The store of the files outside inputs and outputs; a file is durable, whole or missing."""
        return FileStore(self.path.absolute())

    @property
    def inputs_file(self) -> Path:
        return self.path / "inputs" / INPUTS_FILE

    @property
    def manifest(self) -> Path:
        return self.path / "outputs" / layout.MANIFEST

    @property
    def run_json(self) -> Path:
        return self.path / "outputs" / layout.RUN

    @property
    def progress(self) -> Path:
        return self.path / "outputs" / layout.PROGRESS

    @property
    def failure(self) -> Path:
        """A file that says why the calls of the last attempt failed; there is none if they did not."""
        return self.path / ".failure"

    @property
    def page(self) -> Path:
        return self.path / "report.html"

    @property
    def numbers(self) -> Path:
        return self.path / "report.json"

    @property
    def scores(self) -> Path:
        """The scores of the first rubric."""
        return self.path / "scores.parquet"

    @property
    def attestation(self) -> Path:
        return self.path / "attestation.json"

    def judge(self, name: str) -> "RunFolder":
        return RunFolder(self.path / "judges" / name)

    @property
    def begun(self) -> bool:
        return self.file.exists()

    @property
    def verified(self) -> bool:
        return self.manifest.exists()

    async def write(self, request: RunRequest) -> None:
        """Write the request to `run.yaml`."""
        text = request_text(request).encode()
        if not self.begun or self.file.read_bytes() != text:
            await self.root.put(RUN_FILE, text)

    def request(self) -> RunRequest:
        """Read the request of `run.yaml`; UsageError when there is none, or it is not a run's."""
        try:
            document = load(read_whole(self.file).decode())
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(f"{self.path}: is no run; there is no {RUN_FILE} in it") from None
        except OSError as error:
            raise UsageError(f"{self.file}: cannot be read: {error.strerror}") from error
        # ValueError: text that is not UTF-8, and dates that there are not, which YAML reads as dates.
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise UsageError(f"{self.file}: is not YAML: {fault_text(error)}. {_MEND}") from error
        if not isinstance(document, dict):
            raise UsageError(f"{self.file}: should be an object, and is {value_text(document)}. {_MEND}")
        return from_document(document, str(self.file))


def read_run_record(path: Path) -> dict[str, JsonValue]:
    """Return the content of a run.json. Raises UsageError where it was changed."""
    try:
        return check_record(read_whole(path), str(path.parent), path.name)
    except DigestMismatch as error:
        raise UsageError(str(error)) from error


def read_manifest(path: Path) -> Manifest:
    """Return the manifest of an output. Raises UsageError for one that is damaged or too large."""
    content = read_whole(path)
    try:
        check_values(content)
        return Manifest.model_validate_json(content)
    except (TooLarge, ValueError) as error:
        raise UsageError(f"{path}: is damaged: {error_text(error)}") from error


def request_text(request: RunRequest) -> str:
    """The content of `run.yaml`."""
    return str(yaml.safe_dump(to_document(request), sort_keys=False, allow_unicode=True))


@dataclass(frozen=True)
class RunRow:
    """One row of the output with its question. `responses` is None where the row is an error."""

    index: int
    replication: int
    row: Mapping[str, JsonValue]
    responses: list[dict[str, JsonValue]] | None


class Run:
    """A run whose output has been verified."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.request = folder.request()
        self.manifest = read_manifest(folder.manifest)

    @cached_property
    def numbers(self) -> dict[str, JsonValue] | None:
        """report.json; None before anything was scored. UsageError where it is not a report's."""
        try:
            numbers: dict[str, JsonValue] = parse_json(read_whole(self.folder.numbers))
        except FileNotFoundError:
            return None
        except orjson.JSONDecodeError as error:
            raise UsageError(f"{self.folder.numbers}: is not JSON: {error}") from error
        if not isinstance(numbers, dict):
            raise UsageError(f"{self.folder.numbers}: should be an object")
        self._check_numbers()
        return numbers

    def _check_numbers(self) -> None:
        """Compare report.json with the digest that the attestation beside it has of it, if there is one."""
        try:
            payload, _ = read_payload(read_whole(self.folder.attestation))
        except (OSError, BadAttestation):
            return
        if stated := read_stated_digest(payload, NUMBERS):
            self._compare([self.folder.numbers], [stated], f"attestation.json; {self._score_again}")

    @cached_property
    def record(self) -> dict[str, JsonValue]:
        """run.json of the engine: identity, settings and environment of the calls."""
        return read_run_record(self.folder.run_json)

    @cached_property
    def files(self) -> list[Path]:
        """The verified files, in the order of the manifest. Raises UsageError where one was changed since."""
        # By the manifest, never by what lies there: an interrupted verification may have left other files.
        return self._check_files("outputs", self.manifest.files)

    @cached_property
    def inputs(self) -> list[Path]:
        """The files of the dataset, as those of the output."""
        return self._check_files("inputs", self.manifest.inputs)

    def check(self) -> None:
        """Raise UsageError where the dataset, the output or its manifest was changed since the run was verified."""
        # First: of a changed manifest, a file that is whole would be said to be changed.
        self._check_manifest()
        _ = self.inputs, self.files

    def _check_manifest(self) -> None:
        """Compare the manifest with the digest that the report has of it, if there is a report."""
        if self.numbers is None:
            return
        # Imported late: a run that begins has no report yet.
        from steelyard_evaluation.report.page.document import FURTHER, RECORD

        # The report of a judged run names the manifest of the verdicts, and this one among what they were made from.
        known = {
            entry["path"]: entry["sha256"]
            for entry in self.numbers.get("evidence", ())
            if entry["what"].startswith((FURTHER, RECORD))
        }
        stated = known.get(f"outputs/{layout.MANIFEST}") or known.get(layout.MANIFEST)
        if stated:
            self._compare([self.folder.manifest], [stated], f"report.json; {self._score_again}")

    def scores(self) -> pa.Table | None:
        """The scores of the first rubric, row by row; None before anything was scored."""
        file = self.score_files.get("scores")
        return None if file is None else read_table(file)

    @cached_property
    def score_files(self) -> dict[str, Path]:
        """The files of scores by their names; `scores` is the first rubric's. Raises UsageError where one was changed
        since.
        """
        paths = sorted(
            self.folder.path.glob("scores*.parquet"), key=lambda path: (len(path.stem) > 6, path.stem)
        )
        evidence = (self.numbers or {}).get("evidence", ())
        known = {entry["path"]: entry["sha256"] for entry in evidence if entry["what"] == "Scores"}
        named = [path for path in paths if path.name in known]
        self._compare(named, [known[path.name] for path in named], f"report.json; {self._score_again}")
        return {path.stem: path for path in paths}

    @property
    def _score_again(self) -> str:
        return f"score it again: steelyard eval score {self.folder.path}"

    def _check_files(self, folder: str, entries: Sequence[FileEntry]) -> list[Path]:
        paths = [self.folder.path / folder / entry.path for entry in entries]
        self._compare(paths, [entry.sha256 for entry in entries], "the manifest of the run")
        return paths

    def _compare(self, paths: Sequence[Path], expected: Sequence[str], named_by: str) -> None:
        try:
            digests = sha256_of_all(paths)
        except OSError as error:
            raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error
        for path, digest, sha256 in zip(paths, digests, expected, strict=True):
            if digest != sha256:
                raise UsageError(
                    f"{path}: was changed: it has the SHA-256 {digest[:12]}… instead of {sha256[:12]}…, says {named_by}"
                )

    @cached_property
    def error_files(self) -> list[Path]:
        """Row errors, and rows that were asked again though they ended well. Raises UsageError where one was changed
        since.
        """
        outputs = self.folder.path / "outputs"
        paths = sorted((outputs / layout.ERRORS).glob("*.parquet"))
        known = {outputs / entry.path: entry.sha256 for entry in self.manifest.records}
        named = [path for path in paths if path in known]
        self._compare(named, [known[path] for path in named], "the manifest of the run")
        return paths

    @cached_property
    def row_errors(self) -> dict[tuple[int, str], dict[str, JsonValue]]:
        """The recorded errors by `_index_` and `_replication_`; of several for one row, the last."""
        rows = [row for path in self.error_files for row in read_table(path).to_pylist()]
        return {(row[INDEX], row[REPLICATION]): row for row in rows}

    def replication(self, name: str) -> int:
        """The number, from 0, of a `_replication_`."""
        return self.manifest.replications.index(name)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The verified output joined with the dataset, in the order of the output and in constant memory.

        `_index_`, `_replication_` and `responses`, and the dataset's columns under the name `row` (a struct).
        """
        with tempfile.TemporaryDirectory(prefix="steelyard-run-") as scratch:
            questions = _Questions(self, Path(scratch))
            for path in self.files:
                for batch in batches(path, BATCH):
                    row = questions.rows(batch.column(batch.schema.get_field_index(INDEX)))
                    yield batch.append_column("row", row)

    def rows(self) -> Iterator[RunRow]:
        """The same as Python objects."""
        numbers = {name: number for number, name in enumerate(self.manifest.replications)}
        for batch in self.batches():
            for row in to_rows(batch):
                yield RunRow(row[INDEX], numbers[row[REPLICATION]], row["row"], row[RESPONSES])


def open_run(path: Path) -> Run:
    """The run in the folder `path`; UsageError when there is none, or it is not done."""
    folder = RunFolder(path)
    request = folder.request()
    if not folder.verified:
        raise UsageError(
            f"{path}: is not done; go on with: steelyard eval run {folder.path} ({request.source.location})"
        )
    return Run(folder)


class _Questions:
    """The dataset's rows by `_index_`: on disk as Arrow, mapped into memory, so that none of it has to stay there."""

    def __init__(self, run: Run, scratch: Path) -> None:
        paths = run.inputs
        source = Source(run.folder.inputs, tuple(run.manifest.inputs))
        self._indexes = IndexMap(source)
        # Parquet has no cheap access by row; Arrow's own file is mapped, and only the rows that are read take
        # memory.
        path = scratch / "rows.arrow"
        self._table = self._map_table(paths, path)

    def _map_table(self, inputs: Sequence[Path], path: Path) -> pa.Table:
        schema = open_parquet(inputs[0]).schema_arrow
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for file in inputs:
                for batch in batches(file, BATCH):
                    writer.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all().drop_columns([INDEX])

    def rows(self, indexes: "pa.Array[JsonValue]") -> "pa.StructArray":
        ordinals = self._indexes.ordinals(indexes.to_numpy())
        if (ordinals == ABSENT).any():
            lost = indexes[int((ordinals == ABSENT).argmax())]
            raise UsageError(f"the inputs have no row {lost}, but the outputs have: the folder was changed")
        first, last = int(ordinals.min()), int(ordinals.max())  # outputs are nearly in the dataset's order
        near = self._table.slice(first, last - first + 1)
        taken = near.take(ordinals - first)
        return pa.StructArray.from_arrays(
            [column.combine_chunks() for column in taken.columns], fields=list(taken.schema)
        )
