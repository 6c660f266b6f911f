"""Decisions about admissions, the same in every accounts database, which makes them in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from steelyard.accounts.claims import Claim

Check = Callable[[str, Sequence[Claim]], str | None]
"""Check of one entity against the claims that count: the reason why it is not admitted, or None."""


def list_undecided(ids: Sequence[str], known: Mapping[str, Claim]) -> tuple[list[Claim], dict[str, str]]:
    """Return the claims that are to be checked, in order, and the refusals of those that cannot be admitted."""
    claims: list[Claim] = []
    refusals: dict[str, str] = {}
    for id in ids:
        claim = known.get(id)
        if claim is None:
            refusals[id] = f"entity {id} is not known"
        # It ended between the scheduler's decision and this transaction, and takes nothing any more.
        elif claim.terminal_at is not None:
            refusals[id] = f"{claim.kind} {id} is {claim.status}"
        # Else admitted before: the process died, or lost the answer, after its commit. The caller goes on as if this
        # were new.
        elif claim.admitted_at is None or claim.released_at is not None:
            claims.append(claim)
    return claims, refusals


def decide(
    claims: Sequence[Claim], counted: Sequence[Claim], now: datetime, allowed: Check
) -> tuple[list[str], dict[str, str]]:
    """Return the ids that are admitted, and the refusals of the others: each counts for those after it."""
    counted = list(counted)
    admitted: list[str] = []
    refusals: dict[str, str] = {}
    for claim in claims:
        if refusal := allowed(claim.id, counted):
            refusals[claim.id] = refusal
        else:
            admitted.append(claim.id)
            counted.append(replace(claim, admitted_at=now, released_at=None))
    return admitted, refusals
