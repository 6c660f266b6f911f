import pytest

from steelyard_common.backoff import backoff_seconds


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0.5), (1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (6, 8.0), (100_000, 8.0)],
)
def test_pauses_double_from_the_first_to_the_longest(failures: int, seconds: float) -> None:
    assert backoff_seconds(failures, first=0.5, longest=8.0) == seconds
