"""Ways to tamper with a report or an audit, each as a person with a text editor would: for tests of verification.

`digest_anew` is the careful one: it writes the SHA-256 of an edited file wherever the old one stood.
"""

import hashlib
import io
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_common.types import JsonValue

TEXTS = ("*.json", "*.html")


def edit_json(path: Path, change: Callable[[JsonValue], None]) -> None:
    content = orjson.loads(path.read_bytes())
    change(content)
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")


def edit_table(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    sink = io.BytesIO()
    pq.write_table(change(pq.read_table(path)), sink)
    path.write_bytes(sink.getvalue())


def digest_anew(path: Path, before: bytes, root: Path) -> None:
    """The new digest in place of the old one in every JSON file and page below `root`, and in what names these."""
    old, new = (hashlib.sha256(data).hexdigest().encode() for data in (before, path.read_bytes()))
    if old == new:
        return
    for text in sorted(file for pattern in TEXTS for file in root.rglob(pattern)):
        content = text.read_bytes()
        if text != path and old in content:
            text.write_bytes(content.replace(old, new))
            digest_anew(text, content, root)


def drop_rows(outputs: Path, root: Path, rows: int = 2) -> None:
    """Rows taken out of the last file of outputs, the manifest edited to fit, everything digested again."""
    path = sorted(outputs.glob("part-*.parquet"))[-1]
    before, manifest = path.read_bytes(), outputs / ".steelyard/manifest.json"
    edit_table(path, lambda table: table.slice(0, table.num_rows - rows))
    original = manifest.read_bytes()

    def edited(content: JsonValue) -> None:
        content["rows"]["total"] -= rows
        content["rows"]["present"] -= rows
        content["files"][-1] |= {"rows": content["files"][-1]["rows"] - rows, "size": path.stat().st_size}

    edit_json(manifest, edited)
    digest_anew(path, before, root)
    digest_anew(manifest, original, root)


def swap_inputs(inputs: Path) -> None:
    """The first two questions change places, with their targets; each keeps its number."""
    path = sorted(inputs.rglob("*.parquet"))[0]

    def swapped(table: pa.Table) -> pa.Table:
        order = [1, 0, *range(2, table.num_rows)]
        moved = table.take(order)
        return moved.set_column(0, "_index_", table["_index_"])

    edit_table(path, swapped)


def raise_scores(path: Path) -> None:
    """Every score becomes 1, and right."""
    table = pq.read_table(path)
    ones = pa.array([1.0] * table.num_rows, table.schema.field("score").type)
    right = pa.array([True] * table.num_rows)
    column = table.schema.get_field_index
    edit_table(
        path,
        lambda _: table.set_column(column("score"), "score", ones).set_column(
            column("correct"), "correct", right
        ),
    )
