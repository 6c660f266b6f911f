"""The budget of a run: its model and its judges spend from one, and every report says who spent what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.caps import OtherUsage, Prices, Usage
from steelyard_evaluation.runs.folder import RunFolder, open_run
from steelyard_evaluation.runs.queries import tokens
from steelyard_evaluation.runs.request import RunRequest
from steelyard_evaluation.runs.spending.prices import PriceSpec
from steelyard_evaluation.runs.spending.spending_log import CallTotals, sum_logs

MODEL = "model"


@dataclass(frozen=True)
class Spender:
    """The cost of one model so far."""

    name: str
    """`model`, or the judge's name."""
    model: str
    spent: CallTotals
    prices: PriceSpec | None

    @property
    def tokens(self) -> int:
        """All of them; those of lost calls are estimated."""
        return self.spent.tokens.total + self.spent.token_loss

    @property
    def cost(self) -> float | None:
        """Return the cost; None without prices."""
        if self.prices is None:
            return None
        answered = Prices(self.prices.prompt, self.prices.completion).cost(self.spent.tokens)
        known = self.spent.tokens.total
        # Lost calls are taken to cost what the answered ones did on average.
        return answered * (self.tokens / known) if known else answered


def accounts(folder: RunFolder, request: RunRequest) -> tuple[Spender, ...]:
    """The model's account, and one of every judge that has been asked. Blocking."""
    spenders = [Spender(MODEL, request.model, _read_spending(folder), request.limits.prices)]
    for spec in request.judges:
        judge = folder.judge(spec.name)
        if judge.path.exists():
            spenders.append(Spender(spec.name, spec.model, _read_spending(judge), spec.prices))
    return tuple(spenders)


def sum_others(all_accounts: Sequence[Spender], name: str) -> OtherUsage:
    """Return what all spenders but `name` took from the budget."""
    others = [account for account in all_accounts if account.name != name and account.tokens]
    costs = [account.cost for account in others]
    return OtherUsage(
        tokens=sum(account.tokens for account in others),
        cost=sum(cost for cost in costs if cost is not None),
        names=tuple(account.name for account in others),
    )


def check_prices(request: RunRequest) -> None:
    """Raise UsageError for a cap of cost where the tokens of the model or of a judge have no price."""
    limits = request.limits
    if limits.max_cost is None:
        return
    if limits.prices is None:
        raise UsageError("--max-cost: needs --prices, a file of what a million tokens of the model cost")
    for spec in request.judges:
        if spec.prices is None:
            raise UsageError(f"--max-cost: needs a price of judge {spec.name} ({spec.model}), too: --prices")


def spending(all_accounts: Sequence[Spender]) -> dict[str, JsonValue]:
    """The part of report.json. The total has no cost where the tokens of the model or of a judge have no price."""
    costs = [account.cost for account in all_accounts]
    return {
        "accounts": [_account(account) for account in all_accounts],
        "tokens": sum(account.tokens for account in all_accounts),
        "cost": None if None in costs else sum(cost for cost in costs if cost is not None),
    }


def _account(account: Spender) -> Mapping[str, JsonValue]:
    spent = account.spent
    return {
        "name": account.name,
        "model": account.model,
        "calls": spent.calls,
        "lostCalls": spent.lost,
        "promptTokens": spent.tokens.prompt,
        "completionTokens": spent.tokens.completion,
        "lostTokens": spent.token_loss,
        "tokens": account.tokens,
        "cost": account.cost,
    }


def _read_spending(folder: RunFolder) -> CallTotals:
    """The spending log; for answers that no spending log counted, at least the tokens that are stored with them."""
    spent = sum_logs(folder)
    if not folder.verified:
        return spent
    run = open_run(folder.path)
    if spent.calls - spent.lost >= run.manifest.rows.present:
        return spent  # it has seen every answer: the outputs need not be read for their tokens
    # A run of an older version, or whose log a power loss emptied.
    durable = Usage(*(tokens(run) or (0, 0)))
    if durable.total <= spent.tokens.total:
        return spent
    return CallTotals(max(spent.calls, run.manifest.rows.present), spent.lost, durable)
