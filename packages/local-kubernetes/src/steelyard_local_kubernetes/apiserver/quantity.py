"""Kubernetes quantities, refused in the words of its API server."""

from decimal import Decimal

from steelyard_schema.quantity import amount


def quantity(text: object) -> Decimal:
    """The amount; ValueError for any other text."""
    try:
        return amount(str(text))
    except ValueError:
        raise ValueError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None
