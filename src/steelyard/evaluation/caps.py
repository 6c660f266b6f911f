"""How much an evaluation may use: tokens, money, time. Pure; the settler counts, the attempt stops.

A cap that is reached ends nothing in the middle: calls in flight are awaited and their answers kept, and a later
attempt with a higher cap goes on from there.
"""

from dataclasses import dataclass

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
    """What a million tokens cost, in the currency of the cap."""

    prompt: float
    completion: float

    def cost(self, usage: Usage) -> float:
        return (usage.prompt * self.prompt + usage.completion * self.completion) / _PER


@dataclass(frozen=True)
class Caps:
    """Tokens and cost count over all attempts of an output, seconds from where this attempt begins to call."""

    max_tokens: int | None = None
    max_cost: float | None = None
    prices: Prices | None = None
    """Needed for `max_cost`; without a cap they only make progress say what was spent."""
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.max_cost is not None and self.prices is None:
            raise ValueError("max_cost needs prices")

    def spend(self, usage: Usage) -> float | None:
        """What `usage` cost; None without prices."""
        return None if self.prices is None else self.prices.cost(usage)

    def reached(self, used: Usage, rows: int, in_flight: int) -> str | None:
        """Which cap `used`, over `rows` answers, has reached; None while none is.

        What is `in_flight` will be paid for too, and counts as much as the answers so far did on average: so the end
        is at the cap, not beyond it by everything that was in flight.
        """
        paid, rows = max(rows + in_flight, 1), max(rows, 1)
        if self.max_tokens is not None and used.total * paid >= self.max_tokens * rows:
            return f"the cap of {self.max_tokens} tokens is reached: {used.total} are used"
        if self.max_cost is not None and (spend := self.spend(used) or 0.0) * paid >= self.max_cost * rows:
            return f"the cap of {self.max_cost:g} is reached: {spend:.4g} are spent"
        return None
