"""Scores are found for rows of the output in whatever order either side has them."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_evaluation.report.row_scores import RowScores

Key = tuple[int, str]
KEYS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["x", "y"])), unique=True, max_size=12)


def make_table(keys: list[Key]) -> pa.Table:
    """Scores of these rows: ten times the index, and one more in the replication y."""
    return pa.table(
        {
            "_index_": pa.array([index for index, _ in keys], pa.int64()),
            "_replication_": pa.array([name for _, name in keys], pa.string()),
            "score": pa.array([10.0 * index + (name == "y") for index, name in keys], pa.float64()),
        }
    )


@settings(deadline=None)
@given(KEYS, st.lists(KEYS, max_size=3))
def test_each_row_gets_its_own_scores_or_none(scored: list[Key], batches: list[list[Key]]) -> None:
    row_scores = RowScores(make_table(scored))
    for keys in batches:
        rows = make_table(keys).drop_columns(["score"])
        expected = [10.0 * key[0] + (key[1] == "y") if key in scored else None for key in keys]
        scores = row_scores.lookup(rows)
        assert scores["score"].to_pylist() == expected
        assert scores.select(["_index_", "_replication_"]).to_pylist() == rows.to_pylist()
    assert row_scores.missing == sum(key not in scored for keys in batches for key in keys)
