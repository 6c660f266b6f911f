"""Tests of the changes that an attempt makes to its process, and takes back."""

import gc
import subprocess
import sys

import pytest

from steelyard_evaluation.engine.lean import seldom_collecting

SPARE = """
import sys
from steelyard_evaluation.engine.lean import spare_pandas
spare_pandas()
import pyarrow as pa
table = pa.table({"a": [1]})
assert "pandas" not in sys.modules
assert table.to_pandas()["a"][0] == 1
assert pa.array(table.to_pandas()["a"]).to_pylist() == [1]
"""


def test_pandas_is_imported_when_it_is_needed_and_not_before() -> None:
    pytest.importorskip("pandas")
    subprocess.run([sys.executable, "-c", SPARE], check=True)


def test_the_collector_is_as_it_was_when_the_last_attempt_has_ended() -> None:
    usual = gc.get_threshold()
    with seldom_collecting(), seldom_collecting():
        assert gc.get_threshold() != usual
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)
