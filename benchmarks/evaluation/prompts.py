"""The prompts that everybody is asked: `python -m benchmarks.evaluation.prompts FOLDER ROWS`.

About 490 characters each: `prompts.parquet` for the command line and the bare loop, the same as `dataset/` with an
index for the engine, and `prompts.jsonl` for peers that read no Parquet. The model answers half of them right.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.evaluation.server import CONTENT

PROMPT = "Steelyard weighs one thing against another, by a sliding weight on a long arm. " * 6
GROUP = 10_000


def write(folder: Path, rows: int) -> None:
    (folder / "dataset").mkdir(parents=True, exist_ok=True)
    fields: dict[str, pa.DataType] = {"_index_": pa.int64(), "prompt": pa.string(), "target": pa.string()}
    schema = pa.schema(fields)
    plain = pa.schema({name: kind for name, kind in fields.items() if name != "_index_"})
    with (
        pq.ParquetWriter(folder / "dataset" / "part-0.parquet", schema) as dataset,
        pq.ParquetWriter(folder / "prompts.parquet", plain) as prompts,
        (folder / "prompts.jsonl").open("w") as lines,
    ):
        for start in range(0, rows, GROUP):
            numbers = range(start, min(rows, start + GROUP))
            columns = {
                "_index_": list(numbers),
                "prompt": [f"{PROMPT} {number}" for number in numbers],
                "target": [CONTENT if number % 2 else "something else" for number in numbers],
            }
            table = pa.table(columns, schema=schema)
            dataset.write_table(table)
            prompts.write_table(table.drop_columns(["_index_"]))
            if rows <= GROUP:
                lines.writelines(
                    json.dumps(row) + "\n" for row in table.drop_columns(["_index_"]).to_pylist()
                )


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
