"""Changes of accounts, the same in every accounts database."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from steelyard.accounts.database import AccountDeleted, TooManyKeys, TooManyLabels
from steelyard_schema.account import AccessGrant, Account

ENDED_KEPT = timedelta(days=7)
"""Time for which a key that has ended is still listed."""
LABELS = 1000
"""Maximum number of labels of an account, as of an entity."""


def permit(account: Account, permissions: Sequence[AccessGrant], version: str) -> None:
    """Replace an account's permissions; `version` is new."""
    account.auth.permissions = [*permissions]
    account.auth.permissionsVersion = version


def transit(account: Account, status: str, reason: str, now: datetime) -> None:
    """Give an account another status."""
    account.status, account.reason, account.lastTransitionTime = status, reason, now


def relabel(account: Account, patch: Mapping[str, str | None]) -> None:
    """Set labels; None removes one. Raises TooManyLabels."""
    labels = {key: value for key, value in {**account.labels, **patch}.items() if value is not None}
    if len(labels) > LABELS:
        raise TooManyLabels(f"labels: the account would have {len(labels)}; at most {LABELS} are possible")
    account.labels = labels


def to_row(account: Account) -> tuple[str, str]:
    """Return an account's JSON as a row of the accounts has it, and that of its labels."""
    # Keys have rows of their own; a copy in the account's JSON would outlive their revocation. Labels have a column,
    # so that a version that does not know them can still read the account.
    kept = account.model_dump_json(by_alias=True, exclude_none=True, exclude={"apiKeys", "labels"})
    return kept, json.dumps(account.labels)


def from_row(kept: str, labels: str) -> Account:
    """Return the account of a row, without its keys. Raises ValidationError."""
    account = Account.model_validate_json(kept)
    account.labels = json.loads(labels)
    return account


def check_number_of_keys(count: int, most: int | None) -> None:
    """Raise TooManyKeys where an account with so many keys may have no other one."""
    if most is not None and count >= most:
        raise TooManyKeys(
            f"the account has {count} tokens that are valid, the most that one may have; revoke one first"
        )


def check_number_of_session_keys(count: int, most: int | None) -> None:
    """Raise TooManyKeys where a session with so many keys may have no other one."""
    if most is not None and count >= most:
        raise TooManyKeys(
            f"the session has {count} tokens that are valid, the most that one may have: use one of them, or wait "
            "until one expires"
        )


def check_not_deleted(kept: str) -> None:
    """Raise AccountDeleted for the row of a deleted account. An account that cannot be read is not deleted."""
    account = json.loads(kept)
    if account.get("status") == "Deleted":
        raise AccountDeleted(f"account {account['name']} is Deleted")
