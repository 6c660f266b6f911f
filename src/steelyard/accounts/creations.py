"""Entities that count for rates of creations, kept so that counting takes hardly longer when there are many."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from steelyard.accounts.claims import Claim
from steelyard.accounts.quota_settings import GLOBAL


class Creations:
    """Times of creations by kind, of each account and of all."""

    def __init__(self, created: Iterable[Claim] = ()) -> None:
        self._known: dict[str, Claim] = {}
        self._times: defaultdict[tuple[str, str], list[datetime]] = defaultdict(list)
        for claim in created:
            self.add(claim)

    def add(self, claim: Claim) -> None:
        """Count an entity, once."""
        if claim.id not in self._known:
            self._known[claim.id] = claim
            for principal in (GLOBAL, f"accounts/{claim.account}"):
                insort(self._times[claim.kind, principal], claim.created)

    def count(
        self, kinds: frozenset[str], principal: str, start: datetime, end: datetime, besides: str
    ) -> int:
        """Count the entities that were created from `start` on and before `end`, without the entity `besides`."""
        lists = (self._times.get((kind, principal), []) for kind in kinds)
        counted = sum(bisect_left(times, end) - bisect_left(times, start) for times in lists)
        own = self._known.get(besides)
        if own is None or own.kind not in kinds or not start <= own.created < end:
            return counted
        return counted - (principal in (GLOBAL, f"accounts/{own.account}"))
