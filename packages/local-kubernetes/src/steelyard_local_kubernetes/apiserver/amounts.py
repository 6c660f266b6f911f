"""Amounts of resources as a real server reckons with them: a number, and the form in which it is written.

Quotas and limits compare, add and show them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal, localcontext
from functools import lru_cache

from steelyard_local_kubernetes.apiserver.quantity import quantity

Amounts = dict[str, "Amount"]
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_EXPONENT = re.compile(r"[0-9.][eE][-+]?[0-9]+$")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number, and whether its text counts in powers of 1024, of 1000, or with an exponent."""

    number: Decimal
    form: str = "decimal"  # or binary, exponent

    def __add__(self, other: "Amount") -> "Amount":
        # As in Go: nothing has no form of its own.
        form = self.form if self.number else other.form
        return Amount(_exact(self.number, other.number), form)

    def __sub__(self, other: "Amount") -> "Amount":
        form = self.form if self.number else other.form
        return Amount(_exact(self.number, -other.number), form)

    def __str__(self) -> str:
        """The text that a real server writes, in which 1000m is 1 and 1024Mi is 1Gi."""
        if self.form == "binary" and abs(self.number) >= 1024 and self.number == int(self.number):
            number, power = int(self.number), 0
            while number % 1024 == 0 and power + 1 < len(_BINARY):
                number, power = number // 1024, power + 1
            return f"{number}{_BINARY[power]}"
        return _decimal_text(self.number, with_suffix=self.form != "exponent")


def _exact(first: Decimal, second: Decimal) -> Decimal:
    with localcontext(prec=2200):  # as many digits as two quantities may have
        return first + second


def _decimal_text(number: Decimal, *, with_suffix: bool) -> str:
    if not number:
        return "0"
    sign, digits, exponent = number.normalize().as_tuple()
    assert isinstance(exponent, int)
    mantissa = int("".join(map(str, digits)))
    mantissa *= 10 ** (exponent % 3)
    exponent -= exponent % 3
    # Beyond the last suffix the digits are written out.
    while exponent > 18:
        mantissa, exponent = mantissa * 1000, exponent - 3
    suffix = _DECIMAL[exponent] if with_suffix else f"e{exponent}" if exponent else ""
    return f"{'-' if sign else ''}{mantissa}{suffix}"


@lru_cache(maxsize=2000)
def _amount(text: str) -> Amount:
    number = quantity(text)
    with localcontext(prec=2200):
        # Kubernetes rounds away from zero to thousandths what is finer.
        number = number.quantize(Decimal("0.001"), ROUND_UP).normalize()
    if text.endswith("i"):
        return Amount(number, "binary")
    return Amount(number, "exponent" if _EXPONENT.search(text) else "decimal")


def amount(value: object) -> Amount:
    """Parse a quantity. Raises ValueError."""
    return _amount(str(value))


def amounts(values: Mapping[str, object] | None) -> Amounts:
    """Amounts by resource, as in the `requests` of a container."""
    return {name: amount(value) for name, value in (values or {}).items()}


def texts(values: Mapping[str, Amount]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def add(first: Mapping[str, Amount], second: Mapping[str, Amount]) -> Amounts:
    return {
        **{name: value + second[name] if name in second else value for name, value in first.items()},
        **{name: value for name, value in second.items() if name not in first},
    }


def largest(lists: Iterable[Mapping[str, Amount]]) -> Amounts:
    """The largest of each."""
    result: Amounts = {}
    for values in lists:
        for name, value in values.items():
            if name not in result or value.number > result[name].number:
                result[name] = value
    return result
