"""Quantities as Kubernetes and the published schema read them, to the last digit."""

from decimal import Decimal
from fractions import Fraction

import pytest
from dyff.schema.quantity import parse_quantity
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_schema.quantity import amount, quantity, total


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", "2"), ("100m", "0.1"), ("1.5Gi", "1610612736"), (".5k", "500"), ("1.", "1"), ("-1Ki", "-1024"),
        ("+3", "3"), ("1E", "1e18"), ("1E3", "1000"), ("1e-3", "0.001"), ("3n", "3e-9"), ("2Ei", "2305843009213693952"),
    ],
)  # fmt: skip
def test_a_quantity_is_a_number(text: str, number: str) -> None:
    assert amount(text) == Decimal(number)


@pytest.mark.parametrize(
    "text", ["", "Gi", "1 Gi", "1gi", "1K", "1ki", "1e", "1e3Ki", "١", "1Gi\n", "nan", "inf", "--1"]
)
def test_what_is_no_quantity_is_shown(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        amount(text)


@settings(deadline=None)
@given(st.from_regex(r"[0-9]{1,9}(\.[0-9]{1,6})?(n|u|m|k|M|G|T|P|E|[KMGTPE]i)?", fullmatch=True))
def test_the_published_schema_reads_the_same(text: str) -> None:
    assert +amount(text) == parse_quantity(text), "it rounds to 28 digits, as + does"


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["1n", "1Ei", "12345678901234567890123456789", "0.1", "7e30", "-1n"]), max_size=6
    )
)
def test_sums_are_exact(texts: list[str]) -> None:
    assert Fraction(total(map(amount, texts))) == sum((Fraction(amount(text)) for text in texts), Fraction(0))


@pytest.mark.parametrize(
    ("number", "text"), [("2E+9", "2000000000"), ("0.1000", "0.1"), ("0E-9", "0"), ("16", "16")]
)
def test_a_number_is_written_in_plain_digits(number: str, text: str) -> None:
    assert quantity(Decimal(number)) == text
