"""Caps of an evaluation: tokens, money, time. Pure; the settler counts, the attempt stops.

A cap that is reached ends nothing in the middle: calls in flight are awaited and their answers kept, and a later
attempt with a higher cap goes on from there.
"""

from dataclasses import dataclass
from typing import Literal

_PER = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of calls."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.prompt + other.prompt, self.completion + other.completion)

    @property
    def total(self) -> int:
        return self.prompt + self.completion


@dataclass(frozen=True)
class Prices:
    """Prices per million tokens, in the currency of the cap."""

    prompt: float
    completion: float

    def cost(self, usage: Usage) -> float:
        return (usage.prompt * self.prompt + usage.completion * self.completion) / _PER


@dataclass(frozen=True)
class OtherUsage:
    """Use of the same budget by others."""

    tokens: int = 0
    cost: float = 0.0
    names: tuple[str, ...] = ()

    def __add__(self, other: "OtherUsage") -> "OtherUsage":
        return OtherUsage(self.tokens + other.tokens, self.cost + other.cost, self.names + other.names)

    def share(self, amount: str) -> str:
        return f", {amount} of it by {', '.join(self.names)}" if self.names else ""


@dataclass(frozen=True)
class ReachedCap:
    """The cap at which an attempt stops: one of the run, or of the service that it asks."""

    cap: Literal["tokens", "cost", "seconds", "service"]
    message: str
    code: str = "CapReached"
    """Reason of the end. An end that the service has said is the same for every other attempt."""


@dataclass(frozen=True)
class Caps:
    """Tokens and cost count over all attempts of an output, seconds from where this attempt begins to call."""

    max_tokens: int | None = None
    max_cost: float | None = None
    prices: Prices | None = None
    """Needed for `max_cost`; without a cap they only let progress show the spending."""
    max_seconds: float | None = None
    seconds_left: float | None = None
    """Seconds left of `max_seconds` where others have used some; None means all of it."""
    others: OtherUsage = OtherUsage()

    @property
    def counted(self) -> bool:
        """Return whether tokens of answers have to be counted."""
        return self.max_tokens is not None or self.max_cost is not None

    def __post_init__(self) -> None:
        if self.max_cost is not None and self.prices is None:
            raise ValueError("max_cost needs prices")

    def spend(self, usage: Usage) -> float | None:
        """Return the cost of `usage`; None without prices."""
        return None if self.prices is None else self.prices.cost(usage)

    def find_reached(self, used: Usage, rows: int, in_flight: int) -> ReachedCap | None:
        """Return which cap `used`, over `rows` answers, has reached; None while none is.

        Requests `in_flight` will be paid for too, and count as much as the answers so far did on average: so the end
        is at the cap, not beyond it by everything that was in flight.
        """
        # Both sides are multiplied by `rows` in place of a division: the mean of nothing is unknown, and no
        # rounding hides a cap.
        paid, rows, others = max(rows + in_flight, 1), max(rows, 1), self.others
        calls = f"{in_flight} call{'s' if in_flight > 1 else ''}"
        rest = f"; {calls} whose use is not known yet may take the rest"
        if self.max_tokens is not None and used.total * paid >= (self.max_tokens - others.tokens) * rows:
            total = used.total + others.tokens
            share = others.share(str(others.tokens))
            message = f"the cap of {self.max_tokens} tokens is reached: {total} are used{share}"
            return ReachedCap("tokens", message + (rest if total < self.max_tokens else ""))
        spend = self.spend(used) or 0.0
        if self.max_cost is not None and spend * paid >= (self.max_cost - others.cost) * rows:
            share = others.share(f"{others.cost:.4g}")
            cost = spend + others.cost
            message = f"the cap of {self.max_cost:g} is reached: {cost:.4g} are spent{share}"
            return ReachedCap("cost", message + (rest if cost < self.max_cost else ""))
        return None
