"""Amounts as Kubernetes writes them, exactly."""

import re
from decimal import Decimal

_SUFFIXES = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("0.001"), "k": Decimal(1000),
    "M": Decimal(10) ** 6, "G": Decimal(10) ** 9, "T": Decimal(10) ** 12, "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10, "Mi": Decimal(2) ** 20, "Gi": Decimal(2) ** 30, "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50, "Ei": Decimal(2) ** 60,
}  # fmt: skip
_FORM = re.compile(
    r"([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([-+]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE])?)"
)


def amount(text: str) -> Decimal:
    """The number that a quantity stands for. Raises ValueError, which shows it."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no quantity such as 500m, 2 or 1Gi")
    number, exponent, suffix = found.groups()
    scale = Decimal(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return Decimal(number) * scale


def quantity(number: Decimal) -> str:
    """A number as a quantity, in plain digits."""
    return format(number.normalize(), "f")
