"""Questions that have the prompt of another one are counted and noted."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_evaluation.report.duplicate_prompts import duplicates_note

MESSAGES = [{"role": "user", "content": "a"}]


@pytest.mark.parametrize(
    ("columns", "asked", "beginning"),
    [
        (
            {"prompt": ["a", "b", "a", "a"], "target": list("wxyz")},
            range(4),
            "2 questions of 4 have the prompt",
        ),
        (
            {"prompt": ["a", "b", "a", "a"], "target": list("wxyz")},
            range(3),
            "1 question of 3 has the prompt",
        ),
        (
            {"messages": [MESSAGES, MESSAGES], "target": ["x", "y"]},
            range(2),
            "1 question of 2 has the prompt",
        ),
        ({"text": ["a", "a", "b"], "label": ["x", "x", "x"]}, range(3), "1 question of 3 has the prompt"),
        ({"text": ["a", "a", "b"], "label": ["x", "y", "x"]}, range(3), None),
        ({"prompt": ["a", "b", "c"], "target": ["x", "x", "x"]}, range(3), None),
    ],
    ids=["prompts", "those that were asked", "messages", "whole rows", "other labels", "none"],
)
@pytest.mark.parametrize("files", [1, 2])
def test_prompts_that_come_again_are_noted(
    tmp_path: Path, columns: dict[str, list[Any]], asked: range, beginning: str | None, files: int
) -> None:
    size = len(next(iter(columns.values())))
    table = pa.table({"_index_": pa.array(range(size), pa.int64()), **columns})
    paths = [tmp_path / f"{number}.parquet" for number in range(files)]
    for number, path in enumerate(paths):
        pq.write_table(
            table.slice(number * (size // files), None if number == files - 1 else size // files), path
        )
    note = duplicates_note(paths, np.repeat(np.asarray(asked, dtype=np.int64), 3))
    assert (note is None) if beginning is None else str(note).startswith(beginning)
