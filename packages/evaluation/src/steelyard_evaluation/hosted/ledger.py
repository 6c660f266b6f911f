"""The spending ledger of one service, as values: the spending, the holds of calls in flight, and the caps.

A writer holds tokens before it makes the calls that may use them, and says later what they used. A hold counts as
spent until then: a process that was killed in between leaves it behind. Pure: `account.py` makes the entries,
`book.py` keeps them in storage.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext

from steelyard_schema.hosted_model import HostedModel

ACTIVE_SECONDS = 60.0
"""Seconds without an entry after which a writer makes no calls."""
LOST_SECONDS = 120.0
"""Seconds without an entry after which a writer was killed, and what it holds is lost."""
_MOST_LOST_HOLDS = 100
_PER = 1_000_000
_DIGITS = 80
"""Digits of amounts of money: more than the largest price times the largest number of tokens has."""


@dataclass(frozen=True)
class Tokens:
    """Tokens that a model reads and writes."""

    input: int = 0
    output: int = 0

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.input + other.input, self.output + other.output)

    def __sub__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.input - other.input, self.output - other.output)

    def __bool__(self) -> bool:
        return self.total != 0

    @property
    def total(self) -> int:
        return self.input + self.output

    def covers(self, other: "Tokens") -> bool:
        return self.input >= other.input and self.output >= other.output


LEAST = Tokens(1, 1)
"""Tokens of the smallest call."""


@dataclass(frozen=True)
class CallTotals:
    """Calls that were made, and their tokens."""

    calls: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    estimated: int = 0
    """Calls whose use is unknown: they count with the most that they may have used."""

    def __add__(self, other: "CallTotals") -> "CallTotals":
        return CallTotals(
            self.calls + other.calls, self.tokens + other.tokens, self.estimated + other.estimated
        )

    def __sub__(self, other: "CallTotals") -> "CallTotals":
        return CallTotals(
            self.calls - other.calls, self.tokens - other.tokens, self.estimated - other.estimated
        )


@dataclass(frozen=True)
class Hold:
    """Tokens that a writer holds, and the time at which it last wrote."""

    tokens: Tokens
    time: datetime


@dataclass(frozen=True)
class Ledger:
    """All spending up to an entry of a number."""

    day: date
    number: int = 0
    today: CallTotals = field(default_factory=CallTotals)
    total: CallTotals = field(default_factory=CallTotals)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    """Holds by writer."""
    lost: Tokens = field(default_factory=Tokens)
    """Tokens that were held by writers which were killed long ago."""
    writer: str = ""
    """Writer of the entry, so that no two writers make equal entries."""

    def at(self, now: datetime) -> "Ledger":
        """Return the ledger on the day of `now`; a clock that is behind opens no earlier day."""
        day = now.astimezone(UTC).date()
        return self if day <= self.day else replace(self, day=day, today=CallTotals())

    def after(self, writer: str, spent: CallTotals, hold: Tokens | None, now: datetime) -> "Ledger":
        """Return the next entry: the writer has spent, and holds this from now on; None ends it."""
        ledger = self.at(now)
        holds = {name: held for name, held in ledger.holds.items() if name != writer}
        ledger = _without_old_holds(replace(ledger, holds=holds), now)
        if hold is not None:
            ledger = replace(ledger, holds={**ledger.holds, writer: Hold(hold, now)})
        return replace(
            ledger,
            number=self.number + 1,
            today=ledger.today + spent,
            total=ledger.total + spent,
            writer=writer,
        )

    def sum_spent(self, now: datetime) -> tuple[Tokens, Tokens]:
        """Return the final spending, today and altogether, with the holds that killed writers left behind."""
        return self._sum(now, lambda held: is_lost(held, now))

    def sum_committed(self, now: datetime, writer: str = "") -> tuple[Tokens, Tokens]:
        """Return the spending and the holds, today and altogether, without the holds of `writer`."""
        held = self.holds.get(writer)
        return self._sum(now, lambda other: other is not held)

    def active(self, now: datetime) -> int:
        """Count the writers that make calls."""
        return sum((now - held.time).total_seconds() <= ACTIVE_SECONDS for held in self.holds.values())

    def _sum(self, now: datetime, counts: Callable[[Hold], bool]) -> tuple[Tokens, Tokens]:
        ledger = self.at(now)
        today, total = ledger.today.tokens, ledger.total.tokens + ledger.lost
        for held in ledger.holds.values():
            if counts(held):
                total += held.tokens
                # A call may begin on one day and be settled on the next: it is held on both.
                if held.time.astimezone(UTC).date() >= ledger.day or not is_lost(held, now):
                    today += held.tokens
        return today, total


def is_lost(held: Hold, now: datetime) -> bool:
    """Return whether the writer was killed, as far as can be known."""
    return now - held.time > timedelta(seconds=LOST_SECONDS)


def _without_old_holds(ledger: Ledger, now: datetime) -> Ledger:
    """Add up holds of killed writers where there are many: an entry has to stay small."""
    old = [name for name, held in ledger.holds.items() if now - held.time > timedelta(days=2)]
    if len(old) <= _MOST_LOST_HOLDS:
        return ledger
    lost = sum((ledger.holds[name].tokens for name in old), ledger.lost)
    return replace(
        ledger, lost=lost, holds={name: held for name, held in ledger.holds.items() if name not in old}
    )


@dataclass(frozen=True)
class Caps:
    """The most that may be spent, and what tokens cost."""

    model: HostedModel

    def cost(self, tokens: Tokens) -> Decimal | None:
        """Return what tokens cost; None without prices. Exact: no rounding lets a cap be passed."""
        model = self.model
        if model.input_price is None or model.output_price is None:
            return None
        with localcontext(prec=_DIGITS):
            return (model.input_price * tokens.input + model.output_price * tokens.output) / _PER

    def find_passed(self, today: Tokens, total: Tokens) -> "Cap | None":
        """Return the first cap that is passed; None where all are kept."""
        model = self.model
        for most, tokens, per_day in (
            (model.tokens_total, total, False),
            (model.tokens_per_day, today, True),
        ):
            if most is not None and tokens.total > most:
                return Cap(f"{most} tokens", per_day=per_day, of_money=False)
        for money, tokens, per_day in (
            (model.cost_total, total, False),
            (model.cost_per_day, today, True),
        ):
            cost = self.cost(tokens)
            if money is not None and cost is not None and cost > money:
                return Cap(f"{money:f} {model.currency}", per_day=per_day, of_money=True)
        return None

    def hundredth(self) -> Tokens | None:
        """Return a hundredth of the smallest cap, half of it for each kind of tokens; None without caps."""
        model = self.model
        if not model.capped:
            return None
        counts = [cap // 200 for cap in (model.tokens_total, model.tokens_per_day) if cap is not None]
        inputs, outputs = list(counts), list(counts)
        for money in (model.cost_total, model.cost_per_day):
            if money is not None and model.input_price is not None and model.output_price is not None:
                share = money * _PER / 200
                inputs += [int(share / model.input_price)] if model.input_price else []
                outputs += [int(share / model.output_price)] if model.output_price else []
        return Tokens(min(inputs, default=10**9), min(outputs, default=10**9))


@dataclass(frozen=True)
class Cap:
    """A cap of tokens or of money, in total or per day."""

    amount: str
    """Number with its unit, such as `100 tokens` or `0.5 USD`."""
    per_day: bool
    of_money: bool

    def __str__(self) -> str:
        return f"{self.amount} {'per day (UTC)' if self.per_day else 'in total'}"


@dataclass(frozen=True)
class Refusal:
    """Reason why a call is not made: for good, or until calls in flight have ended."""

    message: str
    final: bool


def refusal(
    ledger: Ledger, writer: str, own: "UnrecordedSpending", tokens: Tokens, caps: Caps, now: datetime
) -> Refusal | None:
    """Return why the writer may not hold `tokens` in addition to what it has; None where it may."""
    today, total = ledger.sum_committed(now, writer)
    mine = own.spent.tokens + own.held
    passed = caps.find_passed(today + mine + tokens, total + mine + tokens)
    if passed is None:
        return None
    today, total = ledger.sum_spent(now)
    spent = own.spent.tokens
    final = caps.find_passed(today + spent + tokens, total + spent + tokens)
    if final is None:
        return Refusal(f"calls in flight may use up the cap of {passed}", final=False)
    # A smaller call may still be made: then the cap is not reached.
    room = caps.find_passed(today + spent + LEAST, total + spent + LEAST) is None
    return Refusal(
        _refusal_text(final, (today if final.per_day else total) + spent, tokens, caps, room=room), final=True
    )


@dataclass(frozen=True)
class UnrecordedSpending:
    """Spending of a writer that the ledger does not have yet, and what its calls in flight may use."""

    spent: CallTotals
    held: Tokens


def _refusal_text(cap: Cap, spent: Tokens, tokens: Tokens, caps: Caps, *, room: bool) -> str:
    if cap.of_money:
        currency = caps.model.currency
        used = f"{amount_text(caps.cost(spent))} {currency} are"
        most = f"{amount_text(caps.cost(tokens))} {currency}"
    else:
        used, most = f"{spent.total} tokens are", f"{tokens.total} tokens"
    said = "leaves no room for this call" if room else "is reached"
    return f"the cap of {cap} {said}: {used} spent, and this call may use {most}"


def amount_text(amount: Decimal | None) -> str:
    """Return an amount of money with as many digits as are of use."""
    if amount is None:
        return ""
    text = f"{amount:.9f}".rstrip("0")
    return text + "0" * max(0, 2 - len(text.partition(".")[2]))
