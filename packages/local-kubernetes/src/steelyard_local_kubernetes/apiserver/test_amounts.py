"""Amounts are written as a real server writes them."""

import pytest

from steelyard_local_kubernetes.apiserver.amounts import amount


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("512", "512"),
        ("0.5Ki", "512"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("2000000", "2M"),
        ("0.0001", "1m"),
        ("0", "0"),
        ("0Mi", "0"),
        ("-1500m", "-1500m"),
        ("-1u", "-1m"),
        ("1E", "1E"),
        ("5000E", "5000E"),
        ("0.1Ki", "102400m"),
    ],
)
def test_one_amount_has_one_text(text: str, canonical: str) -> None:
    assert str(amount(text)) == canonical


def test_a_sum_has_the_form_of_its_first_part() -> None:
    assert str(amount("64Mi") + amount("64Mi")) == "128Mi"
    assert str(amount("0") + amount("64Mi")) == "64Mi"
    assert str(amount("1") + amount("64Mi")) == "67108865"
    assert str(amount("1") - amount("250m")) == "750m"
