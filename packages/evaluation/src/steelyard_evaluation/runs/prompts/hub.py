"""Datasets of the Hugging Face hub as prompt files: `hf:ORG/NAME[/CONFIG][@SPLIT][#REVISION]`.

The hub's own library (the extra `hub`) finds and reads the files; they are streamed once, in constant memory, into a
Parquet file in the cache, which is named by the commit: a run that goes on fetches nothing again.
"""

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_common.bounded_parquet import batches, open_parquet
from steelyard_common.durable import rename_durably
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.manifest import FileEntry
from steelyard_evaluation.runs.request import HUB, SourceSpec

T = TypeVar("T")
BATCH = 1024
MISSING = "reading datasets of the hub needs the extra hub: pip install 'steelyard[hub]'"
_NAME = re.compile(
    r"hf:(?P<name>[\w.-]+(?:/[\w.-]+)?)(?:/(?P<config>[\w.+-]+))?(?:@(?P<split>[\w.-]+))?(?:#(?P<revision>[\w./-]+))?"
)
_SPLITS = "test", "validation", "train"
"""Splits to take where none is named; the first that exists."""


@dataclass(frozen=True)
class HubName:
    """A dataset of the hub; `revision` is a branch, a tag or a commit."""

    name: str
    config: str | None = None
    split: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        config = f"/{self.config}" if self.config else ""
        return f"{HUB}{self.name}{config}{f'@{self.split}' if self.split else ''}" + (
            f"#{self.revision}" if self.revision else ""
        )


def parse_name(location: str) -> HubName:
    """UsageError for a text that cannot be the name of a dataset."""
    match = _NAME.fullmatch(location)
    if match is None:
        raise UsageError(f"{location}: should be hf:ORG/NAME[/CONFIG][@SPLIT][#REVISION]")
    return HubName(**match.groupdict())


@dataclass(frozen=True)
class HubRows:
    """The rows of one split at one commit, as they lie in the cache."""

    path: Path
    entry: FileEntry
    schema: pa.Schema
    count: int
    files: tuple[FileEntry, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", (self.entry,))

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from batches(self.path, BATCH)


def open_hub_rows(source: SourceSpec) -> HubRows:
    """The dataset that `source` names; no more than its `limit` is fetched. Blocking.

    UsageError says why it cannot be had.
    """
    name = parse_name(source.location)
    hub = _Hub(source.location)
    # Before anything is read: a branch may move between two calls, and one run must see one commit.
    commit = hub.commit(name)
    name = hub.split(replace(name, revision=commit))
    path = _cache_path(name, source.limit)
    if not path.exists():
        hub.fetch(name, source.limit, path)
    file = open_parquet(path)
    count = file.metadata.num_rows
    # The commit identifies the rows, not the bytes of a cache, which another version would write otherwise.
    digest = hashlib.sha256(str(name).encode()).hexdigest()
    entry = FileEntry(path=str(name), size=0, sha256=digest, rows=count)
    return HubRows(path, entry, file.schema_arrow.remove_metadata(), count)


def _cache_path(name: HubName, limit: int | None) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    digest = hashlib.sha256(f"{name} {limit}".encode()).hexdigest()[:16]
    return Path(base) / "steelyard" / "hub" / f"{name.name.rpartition('/')[2]}-{digest}.parquet"


class _Hub:
    """The hub's library, with its failures in one line."""

    def __init__(self, location: str) -> None:
        self._location = location
        # Read when the libraries are imported: no progress bars, no telemetry.
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        try:
            import datasets
            import huggingface_hub
        except ImportError as error:
            raise UsageError(f"{location}: {MISSING}") from error
        datasets.disable_progress_bars()
        datasets.utils.logging.set_verbosity(logging.CRITICAL)
        self._datasets, self._hub = datasets, huggingface_hub

    def commit(self, name: HubName) -> str:
        """The hash of the commit that the revision is now."""
        info = self._call(lambda: self._hub.HfApi().dataset_info(name.name, revision=name.revision))
        return str(info.sha)

    def split(self, name: HubName) -> HubName:
        """The name with its config and split; UsageError lists those that there are."""
        configs = self._call(
            lambda: self._datasets.get_dataset_config_names(name.name, revision=name.revision)
        )
        config = name.config or (configs[0] if len(configs) == 1 else "default")
        if config not in configs:
            what = f"has no config {config!r}" if name.config else "has several configs"
            raise UsageError(f"{self._location}: {what}; there are {', '.join(configs)}")
        splits = self._call(
            lambda: self._datasets.get_dataset_split_names(name.name, config, revision=name.revision)
        )
        split = name.split or next((candidate for candidate in _SPLITS if candidate in splits), splits[0])
        if split not in splits:
            raise UsageError(f"{self._location}: has no split {split!r}; there are {', '.join(splits)}")
        return replace(name, config=config, split=split)

    def fetch(self, name: HubName, limit: int | None, path: Path) -> None:
        """Stream the rows into `path`, which appears whole or not at all."""
        rows = self._call(lambda: self._rows(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        # The process id keeps two runs that fetch the same rows at once from writing into one file.
        scratch = path.with_name(f".#{os.getpid()}-{path.name}")
        try:
            self._call(lambda: _write(rows if limit is None else rows.take(limit), scratch))
            rename_durably(scratch, path)
        finally:
            scratch.unlink(missing_ok=True)

    def _rows(self, name: HubName) -> JsonValue:
        builder = self._datasets.load_dataset_builder(name.name, name.config, revision=name.revision)
        if hasattr(builder.config, "fragment_scan_options"):
            # Arrow keeps every range that it reads ahead until a file's end: memory would grow with the file.
            from pyarrow.dataset import ParquetFragmentScanOptions

            builder.config.fragment_scan_options = ParquetFragmentScanOptions(
                pre_buffer=False, use_buffered_stream=True, buffer_size=1 << 20
            )
        return builder.as_streaming_dataset(split=name.split)

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except UsageError:
            raise
        except Exception as error:  # the library wraps those of aiohttp, fsspec and httpx, and has its own
            first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
            message = first or type(error).__name__
            raise UsageError(f"{self._location}: cannot be had from the hub: {message}") from error


def _write(rows: JsonValue, path: Path) -> None:
    writer: pq.ParquetWriter | None = None
    try:
        for table in rows.with_format("arrow").iter(batch_size=BATCH):
            plain = table.replace_schema_metadata(None)
            if writer is None:
                writer = pq.ParquetWriter(path, plain.schema, compression="zstd")
            # Shards of a dataset may differ in nullability or large strings; a file has one schema.
            writer.write_table(plain.cast(writer.schema))
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise UsageError("the split has no rows")
