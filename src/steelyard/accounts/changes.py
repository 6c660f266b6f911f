"""Changes of accounts, the same in every accounts database."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from steelyard.schema.account import AccessGrant, Account

ENDED_KEPT = timedelta(days=7)
"""Time for which a key that has ended is still listed."""


def permit(account: Account, permissions: Sequence[AccessGrant], version: str) -> None:
    """Replace an account's permissions; `version` is new."""
    account.auth.permissions = [*permissions]
    account.auth.permissionsVersion = version


def transit(account: Account, status: str, reason: str, now: datetime) -> None:
    """Give an account another status."""
    account.status, account.reason, account.lastTransitionTime = status, reason, now
