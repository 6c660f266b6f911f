"""The retry rules, as tables."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard_evaluation.engine.retry import RetryPolicy, is_transient, retry_after

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "transient"),
    [
        *((status, True) for status in (408, 425, 429, 500, 502, 503, 504)),
        *((status, False) for status in (302, 400, 401, 404, 409, 422)),
    ],
)
def test_which_statuses_are_worth_another_try(status: int, transient: bool) -> None:
    assert is_transient(status) is transient


@pytest.mark.parametrize(
    ("failures", "jitter", "requested", "delay"),
    [
        pytest.param(1, 1.0, 0, 0.5, id="at most half a second at first"),
        pytest.param(3, 1.0, 0, 2.0, id="twice as much each time"),
        pytest.param(100, 1.0, 0, 30.0, id="never more than the cap"),
        pytest.param(3, 0.0, 0, 0.0, id="full jitter reaches down to nothing"),
        pytest.param(3, 0.5, 7, 7.0, id="Retry-After is honoured"),
        pytest.param(100, 0.5, 7, 15.0, id="unless the delay is longer anyway"),
    ],
)
def test_delays(failures: int, jitter: float, requested: float, delay: float) -> None:
    assert RetryPolicy(limit=120, cap=30).delay(failures, jitter, requested) == delay


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_never_beyond_the_cap(failures: int, jitter: float) -> None:
    assert 0 <= RetryPolicy(limit=1, cap=30).delay(failures, jitter) <= 30


def test_the_limit_counts_retries() -> None:
    policy = RetryPolicy(limit=2, cap=30)
    assert [policy.exhausted(failures) for failures in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0.0),
        ("12", 12.0),
        ("Tue, 01 Jan 2030 00:01:00 GMT", 60.0),
        ("Mon, 31 Dec 2029 00:00:00 GMT", 0.0),
        ("soon", 0.0),
        ("-3", 0.0),
        ("²", 0.0),
    ],
)
def test_retry_after(header: str | None, seconds: float) -> None:
    assert retry_after(header, NOW) == seconds
