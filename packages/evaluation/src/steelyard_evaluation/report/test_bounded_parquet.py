"""A Parquet file that stands for far more than it weighs is read in small pieces or refused, whoever reads it."""

import asyncio
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_common import bounded_parquet
from steelyard_common.bounded_parquet import (
    BATCH_BYTES,
    FOOTER_BYTES,
    Expands,
    batches,
    check,
    open_parquet,
    read_table,
)
from steelyard_evaluation.engine.source import open_source
from steelyard_evaluation.engine.tables import open_table
from steelyard_evaluation.report.answers import read_rows
from steelyard_evaluation.storage.files import FileStore

LONG = "x" * 1_000_000
MOST_GROWTH = 700 << 20
"""Most memory that a reader may take for a bomb, which stands for gigabytes."""


def _written(path: Path, column: Any, **options: Any) -> None:
    table = pa.table({"_index_": pa.array(range(len(column)), pa.int64()), "responses": column})
    pq.write_table(table, path, compression="zstd", **options)


def _named_text(path: Path) -> None:
    indices = np.zeros(100_000, np.int32)
    table = pa.table(
        {
            "_index_": pa.array(range(100_000), pa.int64()),
            "responses": pa.DictionaryArray.from_arrays(indices, pa.array([LONG])),
        }
    )
    pq.write_table(table, path, compression="zstd", store_schema=False)


def _listed_text(path: Path) -> None:
    named = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), pa.array([LONG]))
    lists = pa.ListArray.from_arrays(pa.array([0, 100_000], pa.int32()), named)
    table = pa.table({"_index_": pa.array([0], pa.int64()), "responses": lists})
    pq.write_table(table, path, compression="zstd", store_schema=False)


def _zeros(path: Path) -> None:
    _written(path, pa.array(["\0" * 30_000_000] * 8), use_dictionary=False)


def _long_list(path: Path) -> None:
    values = pa.array(np.zeros(150_000_000, np.int8))
    lists = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    _written(path, lists, write_statistics=False)  # which take three times as long as all else


def _alike_texts(path: Path) -> None:
    options = {"use_dictionary": False, "column_encoding": {"responses": "DELTA_BYTE_ARRAY"}}
    _written(path, pa.array([LONG] * 60), data_page_size=1 << 30, **options)


def _footer(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"PAR1")
        file.truncate(3 << 30)
        file.seek(3 << 30)
        file.write(struct.pack("<I", (3 << 30) - 12) + b"PAR1")


BOMBS: dict[str, tuple[Callable[[Path], None], str | None]] = {
    "a long text that all rows name": (_named_text, None),
    "a long text that a list names often": (_listed_text, "column responses.* the lists of a row group"),
    "pages of zeros": (
        _zeros,
        "column responses: a page of [0-9]+ bytes unpacks to [0-9]+; 67108864 are allowed",
    ),
    "a long list of equal numbers": (_long_list, "column responses.* the lists of a row group .* 536870912"),
    "texts that repeat the one before": (_alike_texts, None),
    "a footer of gigabytes": (_footer, f"its footer has [0-9]+ bytes, of which {FOOTER_BYTES} are allowed"),
}
"""The maker of each, and the message where it is refused; None where it is read in small pieces."""


def _source(path: Path) -> Iterator[Any]:
    return asyncio.run(open_source(FileStore(path.parent))).read()


def _table(path: Path) -> Iterator[Any]:
    bounded_parquet.TABLE_BYTES = 256 << 20  # in a process of its own
    yield read_table(path).num_rows


READERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    "the ingestion of datasets and eval run": lambda path: (
        batch.to_pylist() for batch in open_table(path, "parquet").batches()
    ),
    "an evaluation": _source,
    "reports and verification": lambda path: (batch.to_pylist() for batch in batches(path, 65_536)),
    "rows of a report": read_rows,
    "tables": _table,
}


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    paths = {}
    for name, (make, _) in BOMBS.items():
        paths[name] = tmp_path_factory.mktemp("bomb") / "rows.parquet"
        make(paths[name])
    return paths


_PLAYER = """
import itertools, os, resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
from pathlib import Path
from steelyard_evaluation.report.test_bounded_parquet import READERS, high_water
for line in sys.stdin:
    reader, path = line.rstrip().split("\\t")
    if (child := os.fork()) == 0:
        before = high_water()
        try:
            for _ in itertools.islice(READERS[reader](Path(path)), 3):
                pass
        except Exception as error:
            print("refused:", error)
        print("growth:", high_water() - before, flush=True)
        os._exit(0)
    print("ended:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def player() -> Iterator["subprocess.Popen[str]"]:
    """A process that has imported the readers, and plays each bomb in a child of its own."""
    command = [sys.executable, "-c", _PLAYER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def play(player: "subprocess.Popen[str]", reader: str, path: Path) -> tuple[int, str]:
    """Return the exit status of a child that has read the file, and what it said."""
    assert player.stdin is not None
    assert player.stdout is not None
    player.stdin.write(f"{reader}\t{path}\n")
    player.stdin.flush()
    lines: list[str] = []
    for line in player.stdout:
        if line.startswith("ended: "):
            return int(line.removeprefix("ended: ")), "".join(lines)
        lines.append(line)
    raise AssertionError("".join(lines))


def high_water() -> int:
    """Return the most memory that this process ever had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10  # type: ignore[index]  # it is always there


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("bomb", BOMBS)
def test_no_reader_unpacks_a_bomb(
    bombs: dict[str, Path], player: "subprocess.Popen[str]", bomb: str, reader: str
) -> None:
    status, said = play(player, reader, bombs[bomb])
    assert status == 0, said
    assert int(said.rpartition("growth: ")[2]) < MOST_GROWTH, said
    refusal = BOMBS[bomb][1]
    if reader == "tables" and bomb == "a long text that all rows name":
        refusal = "its rows take more than [0-9]+ bytes"
    assert refusal is None or re.search(f"refused: .*{refusal}", said), said
    assert refusal or "refused" not in said


@pytest.mark.parametrize("name", ["texts", "images", "objects", "lists", "answers", "nothing"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_honest_files_are_read_as_pyarrow_reads_them(tmp_path: Path, name: str, version: Any) -> None:
    columns: dict[str, Any] = {
        "texts": pa.array([f"text {number % 900}" for number in range(20_000)]),
        "images": pa.array([np.random.default_rng(n).bytes(300_000) for n in range(300)]),
        "objects": pa.array([{"bytes": b"x" * n, "path": str(n)} for n in range(3_000)]),
        "lists": pa.array([[1] * 512] * 5_000),
        # One long answer among many short ones: as if each were as long, they would be gigabytes.
        "answers": pa.array([[{"text": "y" if n else "y" * 300_000}] for n in range(100_000)]),
        "nothing": pa.array([], pa.string()),
    }
    path = tmp_path / "rows.parquet"
    _written(path, columns[name], data_page_version=version)
    check(path, open_parquet(path), 4096)
    read = list(batches(path, 4096))
    assert all(batch.num_rows <= 4096 for batch in read)
    assert pa.Table.from_batches(read, pq.read_schema(path)).equals(pq.read_table(path))
    assert read_table(path, ["responses"]).equals(pq.read_table(path, columns=["responses"]))


def test_a_batch_has_as_many_rows_as_fit(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    _written(path, pa.array(["x" * 300_000] * 2_000))
    first = next(batches(path, 4096))
    assert first.num_rows > 100
    assert first.nbytes <= BATCH_BYTES
    assert next(batches(path, 4096, ["_index_"])).num_rows == 2_000


def test_headers_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    _written(path, pa.array(["a text"] * 10))
    content = bytearray(path.read_bytes())
    content[4:24] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(Expands, match="column _index_: the header of a page cannot be read"):
        list(batches(path, 10))


def test_nobody_reads_parquet_in_another_way() -> None:
    root = Path(bounded_parquet.__file__).parent
    sources = (path for path in root.rglob("*.py") if not path.name.startswith("test_"))
    reading = re.compile(r"\bpq\.(ParquetFile\(|read_\w+)|\.iter_batches\(")
    readers = {
        str(path.relative_to(root)) for path in sources if reading.search(path.read_text(encoding="utf-8"))
    }
    assert {name for name in readers if not name.endswith("doubles.py")} == {"bounded_parquet.py"}


FLIPS = """
import io, sys
import pyarrow as pa, pyarrow.parquet as pq
from steelyard_common.bounded_parquet import batches

rows = {"i": list(range(50)), "s": [f"x{n % 5}" for n in range(50)], "l": [[{"a": n}] for n in range(50)]}
file = io.BytesIO()
pq.write_table(pa.table(rows), file, compression="zstd")
whole = file.getvalue()
first = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
for place in range(first, len(whole) - 8):
    for bit in range(8):
        changed = bytearray(whole)
        changed[place] ^= 1 << bit
        try:
            for _ in batches(io.BytesIO(bytes(changed)), 10):
                pass
        except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError):
            pass
print("read", place)
"""


def test_no_bit_of_a_footer_ends_the_process() -> None:
    """Functions of pyarrow that tell about a column abort where its description is wrong."""
    done = subprocess.run(
        [sys.executable, "-c", FLIPS], capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout[:5]) == (0, "read "), done.stderr[-2000:]
