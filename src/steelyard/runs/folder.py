"""The folder of a run: where everything lies in it, and how its rows are read.

RUN/run.yaml                     what was asked
RUN/inputs/part-00000.parquet    the rows asked: `_index_` first, then the columns of the prompt file
RUN/outputs/                     the engine's output store
RUN/report.html, report.json, scores.parquet, attestation.json
RUN/judges/<name>/               runs of judge models, the same layout
"""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from steelyard.errors import UsageError
from steelyard.evaluation import layout
from steelyard.evaluation.indexes import ABSENT, IndexMap
from steelyard.evaluation.manifest import Manifest
from steelyard.evaluation.shape import INDEX, REPLICATION, RESPONSES
from steelyard.evaluation.source import Source
from steelyard.runs.request import RunRequest, from_document, to_document
from steelyard.storage.files import FileStore
from steelyard.types import JsonValue

BATCH = 4096
RUN_FILE = "run.yaml"
INPUTS_FILE = "part-00000.parquet"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser of libyaml, where PyYAML was built with it: it reads ten times faster."""


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
        """Say in `run.yaml` what is asked."""
        text = request_text(request)
        if not self.begun or self.file.read_text() != text:
            await self.root.put(RUN_FILE, text.encode())

    def request(self) -> RunRequest:
        """Read the request of `run.yaml`; UsageError when there is none, or it is not a run's."""
        try:
            document = yaml.load(self.file.read_text(), _LOADER)
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(f"{self.path}: is no run; there is no {RUN_FILE} in it") from None
        # ValueError: text that is not UTF-8, and dates that there are not, which YAML reads as dates.
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise UsageError(f"{self.file}: is not YAML: {error}") from error
        if not isinstance(document, dict):
            raise UsageError(f"{self.file}: should be an object")
        return from_document(document, str(self.file))


def request_text(request: RunRequest) -> str:
    """The content of `run.yaml`."""
    return str(yaml.safe_dump(to_document(request), sort_keys=False, allow_unicode=True))


@dataclass(frozen=True)
class RunRow:
    """One row of the output with what was asked. `responses` is None where the row is an error."""

    index: int
    replication: int
    row: Mapping[str, JsonValue]
    responses: list[dict[str, JsonValue]] | None


class Run:
    """A run whose output has been verified."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.request = folder.request()
        try:
            self.manifest = Manifest.model_validate_json(folder.manifest.read_bytes())
        except ValueError as error:
            raise UsageError(f"{folder.manifest}: is damaged: {error}") from error

    @cached_property
    def numbers(self) -> dict[str, JsonValue] | None:
        """report.json; None before anything was scored."""
        try:
            numbers: dict[str, JsonValue] = orjson.loads(self.folder.numbers.read_bytes())
        except FileNotFoundError:
            return None
        return numbers

    @cached_property
    def record(self) -> dict[str, JsonValue]:
        """run.json of the engine: identity, settings and environment of the calls."""
        record: dict[str, JsonValue] = orjson.loads(self.folder.run_json.read_bytes())
        return record

    @property
    def files(self) -> list[Path]:
        """The verified files, in the order of the manifest."""
        # By the manifest, never by what lies there: an interrupted verification may have left other files.
        return [self.folder.path / "outputs" / entry.path for entry in self.manifest.files]

    def scores(self) -> pa.Table | None:
        """The scores of the first rubric, row by row; None before anything was scored."""
        return pq.read_table(self.folder.scores) if self.folder.scores.exists() else None

    @property
    def error_files(self) -> list[Path]:
        """Row errors, and rows that were asked again though they ended well."""
        return sorted((self.folder.path / "outputs" / layout.ERRORS).glob("*.parquet"))

    @cached_property
    def row_errors(self) -> dict[tuple[int, str], dict[str, JsonValue]]:
        """The recorded errors by `_index_` and `_replication_`; of several for one row, the last."""
        rows = [row for path in self.error_files for row in pq.read_table(path).to_pylist()]
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
                for batch in pq.ParquetFile(path).iter_batches(BATCH):
                    row = questions.rows(batch.column(batch.schema.get_field_index(INDEX)))
                    yield batch.append_column("row", row)

    def rows(self) -> Iterator[RunRow]:
        """The same as Python objects."""
        numbers = {name: number for number, name in enumerate(self.manifest.replications)}
        for batch in self.batches():
            for row in batch.to_pylist(maps_as_pydicts="strict"):
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
        source = Source(run.folder.inputs, tuple(run.manifest.inputs))
        self._indexes = IndexMap(source)
        # Parquet has no cheap access by row; Arrow's own file is mapped, and only the rows that are read take
        # memory.
        path = scratch / "rows.arrow"
        self._table = self._mapped(run, path)

    def _mapped(self, run: Run, path: Path) -> pa.Table:
        files = [pq.ParquetFile(run.folder.path / "inputs" / entry.path) for entry in run.manifest.inputs]
        schema = files[0].schema_arrow
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for file in files:
                for batch in file.iter_batches(BATCH):
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
