"""All rows of a report as linked pages, for people without a Parquet reader. Each page is bounded in rows and bytes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from steelyard.report.page import rows_page
from steelyard.report.rows import Row, row_json
from steelyard.report.wording import count

Json = Any
FOLDER = "rows"
MOST_PAGED = 100_000
"""Rows; an output of more has no such pages."""
PAGE_ROWS = 5_000
PAGE_BYTES = 4_000_000


class RowPages:
    """Takes row after row, and writes page after page into `folder`."""

    def __init__(self, folder: Path, rubrics: Sequence[str], total: int) -> None:
        (folder / FOLDER).mkdir()
        self._folder = folder
        self._rubrics = rubrics
        self._total = total
        self._rows: list[bytes] = []
        self._size = 0
        self._before = 0
        self.paths: list[str] = []
        self.names: list[str] = []

    def add(self, row: Row) -> None:
        drawn = orjson.dumps(row_json(row))
        if self._rows and (len(self._rows) == PAGE_ROWS or self._size + len(drawn) > PAGE_BYTES):
            self._write(last=False)
        self._rows.append(drawn)
        self._size += len(drawn)

    def close(self) -> None:
        if self._rows:
            self._write(last=True)

    def _write(self, *, last: bool) -> None:
        number = len(self.paths) + 1
        first, end = self._before + 1, self._before + len(self._rows)
        name = f"{count(first)} to {count(end)}"
        links = [("All of the report", f"../{'report.html'}")]
        links += [("The rows before", _name(number - 1))] if number > 1 else []
        links += [] if last else [("The rows after", _name(number + 1))]
        data = b'{"rows":[%b],"rubrics":%b}' % (b",".join(self._rows), orjson.dumps(list(self._rubrics)))
        path = f"{FOLDER}/{_name(number)}"
        sentence = f"Rows {name} of {count(self._total)}, in the order of the output."
        (self._folder / path).write_bytes(rows_page(sentence, data, links))
        self.paths.append(path)
        self.names.append(name)
        self._before, self._rows, self._size = end, [], 0


def _name(number: int) -> str:
    return f"page-{number:05d}.html"
