"""mlcroissant reads a dataset's rows by the description that the platform writes."""

import json
from pathlib import Path

import pytest

from tests.engines.readers.conftest import SOURCE, Running
from tests.engines.readers.programs import AGES, ask


@pytest.mark.parametrize("age", AGES)
def test_mlcroissant_reads_all_rows(running: Running, age: str, tmp_path: Path) -> None:
    running.client.datasets.download(running.named, tmp_path)
    document = tmp_path / "croissant.json"
    document.write_text(json.dumps(running.client.datasets.croissant(running.named)))
    records = ask("mlcroissant", age, str(document))
    if age == "oldest":  # its records have the fields' names, and parts of an object beside the others
        expected = [
            {name: value for name, value in row.items() if name != "more"} | row["more"]
            for row in SOURCE.to_pylist()
        ]
    else:
        expected = [
            {
                "rows/_index_": row["_index_"],
                "rows/first_name": row["first name"],
                "rows/weight": row["weight"],
                "rows/right": row["right"],
                "rows/choices": row["choices"],
                "rows/more": {"rows/more/year": row["more"]["year"]},
            }
            for row in SOURCE.to_pylist()
        ]
    assert records == expected
