"""All rows of a report as linked pages, for people without a Parquet reader. Each page is bounded in rows and bytes."""

from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pyarrow as pa

from steelyard_common.types import JsonValue
from steelyard_evaluation.report.page.page import rows_page
from steelyard_evaluation.report.page.row_columns import RowColumns
from steelyard_evaluation.report.wording import count

Draw = Callable[[pa.Table, list[pa.Table]], RowColumns]
"""Function from rows of the output and their scores to columns of a page."""
FOLDER = "rows"
MOST_PAGED = 100_000
"""Rows; an output of more has no such pages."""
PAGE_ROWS = 5_000
PAGE_BYTES = 4_000_000


class RowPages:
    """Takes the rows of the output in order, and writes page after page into `folder`."""

    def __init__(self, folder: Path, rubrics: Sequence[str], total: int, draw: Draw) -> None:
        (folder / FOLDER).mkdir()
        self._folder = folder
        self._rubrics = rubrics
        self._total = total
        self._draw = draw
        self._waiting: list[tuple[pa.Table, list[pa.Table]]] = []
        self._before = 0
        self.paths: list[str] = []
        self.names: list[str] = []

    def add(self, rows: pa.Table, scores: list[pa.Table]) -> None:
        self._waiting.append((rows, scores))
        if sum(rows.num_rows for rows, _ in self._waiting) >= PAGE_ROWS:
            self._write(last=False)

    def close(self) -> None:
        if self._waiting:
            self._write(last=True)

    def _write(self, *, last: bool) -> None:
        """Full pages; what is left over waits, unless it is the last."""
        rows = pa.concat_tables([rows for rows, _ in self._waiting])
        scores = [
            pa.concat_tables(tables) for tables in zip(*(scores for _, scores in self._waiting), strict=True)
        ]
        drawn = self._draw(rows, scores)
        start = 0
        while start < len(drawn):
            end = drawn.fitting(start, PAGE_ROWS, PAGE_BYTES)
            # The rest waits for the next rows, so that the cut of pages does not depend on how the output is
            # cut into files.
            if end == len(drawn) and not last:
                break
            self._page(drawn.data(self._rubrics, start, end), end - start)
            start = end
        left = [table.slice(start) for table in scores]
        self._waiting = [(rows.slice(start), left)] if start < len(drawn) else []

    def _page(self, data: JsonValue, rows: int) -> None:
        number, end = len(self.paths) + 1, self._before + rows
        name = f"{count(self._before + 1)} to {count(end)}"
        links = [("All of the report", "../report.html")]
        links += [("The rows before", _name(number - 1))] if number > 1 else []
        # The next page is linked before it is written: that there will be one follows from the number of
        # rows.
        links += [("The rows after", _name(number + 1))] if end < self._total else []
        path = f"{FOLDER}/{_name(number)}"
        sentence = f"Rows {name} of {count(self._total)}, in the order of the output."
        (self._folder / path).write_bytes(rows_page(sentence, orjson.dumps(data), links))
        self.paths.append(path)
        self.names.append(name)
        self._before = end


def _name(number: int) -> str:
    return f"page-{number:05d}.html"
