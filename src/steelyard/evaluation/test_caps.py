"""When a cap is reached."""

import pytest

from steelyard.evaluation.caps import Caps, Prices, Usage

PRICES = Prices(prompt=2.0, completion=10.0)


@pytest.mark.parametrize(
    ("caps", "used", "rows", "in_flight", "reached"),
    [
        pytest.param(Caps(), Usage(10**9, 10**9), 5, 5, None, id="no cap is never reached"),
        pytest.param(Caps(max_tokens=100), Usage(60, 39), 10, 0, None, id="below"),
        pytest.param(Caps(max_tokens=100), Usage(60, 40), 10, 0, "100 tokens", id="at the cap"),
        pytest.param(Caps(max_tokens=100), Usage(40, 39), 10, 2, None, id="with what is in flight, below"),
        pytest.param(
            Caps(max_tokens=100), Usage(40, 40), 10, 3, "80 are used", id="what is in flight counts"
        ),
        pytest.param(Caps(max_tokens=0), Usage(), 0, 0, "0 tokens", id="nothing is allowed"),
        pytest.param(Caps(max_cost=1.0, prices=PRICES), Usage(250_000, 49_999), 1, 0, None, id="cheaper"),
        pytest.param(Caps(max_cost=1.0, prices=PRICES), Usage(250_000, 50_000), 1, 0, "spent", id="dear"),
    ],
)
def test_caps(caps: Caps, used: Usage, rows: int, in_flight: int, reached: str | None) -> None:
    found = caps.reached(used, rows, in_flight)
    assert found is None if reached is None else reached in (found or "")


def test_a_cap_of_cost_needs_prices() -> None:
    with pytest.raises(ValueError, match="prices"):
        Caps(max_cost=1.0)
    assert Caps().spend(Usage(1, 1)) is None
    assert PRICES.cost(Usage(1_000_000, 100_000)) == 3.0
