"""Amounts as Kubernetes writes them, exactly: `100m`, `1.5Gi`, `2e3`. Quotas, API server and kubelet use them."""

import re
from collections.abc import Iterable
from decimal import Context, Decimal
from functools import lru_cache

_EXACT = Context(prec=2200)  # as many digits as a number of the form below may have, twice
_SUFFIXES = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip
_FORM = re.compile(
    r"([-+]?(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60}))(?:[eE]([-+]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE])?)"
)


@lru_cache(maxsize=1000)
def amount(text: str) -> Decimal:
    """Return the number that a quantity stands for. Raises ValueError, which shows the text."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2 or 1Gi")
    number, exponent, suffix = match.groups()
    if exponent:
        return _EXACT.scaleb(Decimal(number), Decimal(exponent))
    return _EXACT.multiply(Decimal(number), _SUFFIXES[suffix or ""])


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum: Python's own decimals round to 28 digits."""
    result = Decimal(0)
    for addend in amounts:
        result = _EXACT.add(result, addend)
    return result


def quantity(number: Decimal) -> str:
    """Return a number as a quantity, in plain digits."""
    return format(_EXACT.normalize(number), "f")
