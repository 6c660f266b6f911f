"""`steelyard spend`: what hosted models have cost."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import OutputOption, PlatformOptions, one_id
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard_schema.spending import ServiceSpending, Spending


@with_options
def spend(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            help="Inference services: ids, beginnings of ids, or names. Default: all hosted models."
        ),
    ] = None,
    output: OutputOption = "table",
    *,
    platform: PlatformOptions,
) -> None:
    """Show what hosted models have cost.

    These are calls, tokens and money, today (UTC) and in total, with their caps.
    """
    from steelyard.cli.output import check_form, now, render
    from steelyard_schema.hosted_model import is_hosted

    check_form(output)
    with platform.connect() as client:
        services = client.inferenceservices
        if ids:
            chosen = [services.get(one_id(client, "inferenceservices", text)) for text in ids]
        else:
            chosen = [service for service in services.query() if is_hosted(_runner(service.dump()))]
        spendings = [services.spending(service.id) for service in chosen]
    if output != "table":
        content = [{"id": spending.service, **spending.dump()} for spending in spendings]
        single = ids is not None and len(ids) == 1
        typer.echo(render(content, output, "inferenceservices", single=single, now=now()))
        return
    typer.echo(_table([service.name for service in chosen], spendings))


def _runner(service: dict[str, object]) -> dict[str, object]:
    runner = service.get("runner")
    return runner if isinstance(runner, dict) else {}


def _table(names: "Sequence[str]", spendings: "Sequence[ServiceSpending]") -> str:
    from steelyard.cli.output import columns

    if not spendings:
        return "no inference service is a hosted model"
    rows = [("ID", "NAME", "CALLS", "TOKENS", "HELD", "TODAY", "TOTAL", "CAP PER DAY", "CAP IN TOTAL")]
    rows += [
        (
            spending.service[:8],
            name,
            str(spending.total.calls),
            str(spending.total.inputTokens + spending.total.outputTokens),
            str(spending.heldTokens),
            _amount(spending.today, spending.currency),
            _amount(spending.total, spending.currency),
            _cap(spending.caps.costPerDay, spending.caps.tokensPerDay, spending.currency),
            _cap(spending.caps.costTotal, spending.caps.tokensTotal, spending.currency),
        )
        for name, spending in zip(names, spendings, strict=True)
    ]
    return columns(rows)


def _amount(spending: "Spending", currency: str) -> str:
    """Return the money; tokens where they have no price."""
    if spending.cost is None:
        return f"{spending.inputTokens + spending.outputTokens} tokens"
    return f"{spending.cost} {currency}"


def _cap(money: str | None, tokens: int | None, currency: str) -> str:
    caps = [f"{money} {currency}"] if money is not None else []
    caps += [f"{tokens} tokens"] if tokens is not None else []
    return ", ".join(caps) or "-"
