"""Claims that are held, with what they take together.

A check of a quota reads totals, so it takes as long with ten thousand claims held as with ten.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache

from steelyard.accounts.claims import Claim
from steelyard.accounts.quota_settings import GLOBAL
from steelyard_schema.quantity import amount, total


class Holdings:
    """Claims in the order in which they were added, and totals of each resource: for each account, and for all."""

    def __init__(self, claims: Iterable[Claim] = ()) -> None:
        self._all: list[Claim] = []
        self._claims: defaultdict[str, list[Claim]] = defaultdict(list)
        self._totals: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
        for claim in claims:
            self.add(claim)

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, claim: Claim) -> None:
        self._all.append(claim)
        self._claims[claim.account].append(claim)
        for resource, text in claim.quantities.items():
            for principal in (GLOBAL, f"accounts/{claim.account}"):
                key = principal, resource
                self._totals[key] = total((self._totals[key], amount_taken(text)))

    def sum_used(self, principal: str, resource: str) -> Decimal:
        """Return the quantity of a resource that a principal's claims take, or that all take."""
        return self._totals.get((principal, resource), Decimal(0))

    def list_claims(self, account: str) -> Sequence[Claim]:
        return self._claims.get(account, ())


class GrowingHoldings:
    """Held claims of a list that only grows: each call reads the claims that were added since the last one."""

    def __init__(self) -> None:
        self._list: Sequence[Claim] = ()
        self._seen = 0
        self._held = Holdings()

    def among(self, claims: Sequence[Claim]) -> Holdings:
        """Return those of `claims` that are held. The list has grown since the last call, or is another one."""
        if claims is not self._list:
            self._list, self._seen, self._held = claims, 0, Holdings()
        for claim in _holding_claims(claims[self._seen :]):
            self._held.add(claim)
        self._seen = len(claims)
        return self._held


def _holding_claims(claims: Iterable[Claim]) -> Iterator[Claim]:
    return (claim for claim in claims if claim.released_at is None)


@lru_cache(maxsize=1000)
def amount_taken(text: str) -> Decimal:
    """Amount of a claim. Less than nothing would lift the quota of all others; a value that is not a number would bar
    them."""
    try:
        return max(amount(text), Decimal(0))
    except ValueError:
        return Decimal(0)
