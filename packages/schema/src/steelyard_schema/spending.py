"""The spending of a hosted model, as the API answers it from the service's ledger."""

from datetime import date

from steelyard_schema.base import SchemaModel, Time
from steelyard_schema.bounds import Bytes, Word


class Spending(SchemaModel):
    """Calls, tokens and money of a time."""

    calls: Bytes
    """Calls that were paid, or may have been."""
    estimatedCalls: Bytes
    """Calls among them whose provider did not report the tokens: each counts with the most that it may have used."""
    inputTokens: Bytes
    """Tokens that the model has read."""
    outputTokens: Bytes
    """Tokens that the model has written."""
    cost: Word | None = None
    """Money, as a decimal number; absent if the service has no prices."""


class SpendingCaps(SchemaModel):
    """The most that may be spent; an absent one has no cap."""

    tokensPerDay: Bytes | None = None
    """Tokens of a day of UTC."""
    tokensTotal: Bytes | None = None
    """Tokens altogether."""
    costPerDay: Word | None = None
    """Money of a day of UTC, as a decimal number."""
    costTotal: Word | None = None
    """Money altogether, as a decimal number."""


class ServiceSpending(SchemaModel):
    """Spending of an inference service at its provider, over all its sessions and evaluations."""

    service: Word
    """Id of the inference service."""
    day: date
    """The day of UTC that `today` is about."""
    today: Spending
    """Spending of the day."""
    total: Spending
    """Spending altogether."""
    heldTokens: Bytes
    """Tokens that calls in flight may use, or that replicas which were killed may have used. Caps count them."""
    heldCost: Word | None = None
    """Money for these tokens, as a decimal number."""
    caps: SpendingCaps
    """The most that may be spent."""
    currency: Word
    """Currency of all money here."""
    updated: Time | None = None
    """Time of the newest entry by a replica that makes calls; absent if none does."""
