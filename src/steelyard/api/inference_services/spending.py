"""The spending of a hosted model, from its ledger in storage."""

from collections.abc import Iterator
from decimal import Decimal

from starlette.responses import Response

from steelyard.api.entities.collection import Collection
from steelyard.api.entities.loading import load
from steelyard.api.http.access import Grant
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict
from steelyard.api.http.responses import model_response
from steelyard.api.http.routing import Route
from steelyard_evaluation.hosted.book import Book
from steelyard_evaluation.hosted.ledger import CallTotals, Caps, Ledger, amount_text
from steelyard_schema.hosted_model import is_hosted, read_hosted_model
from steelyard_schema.inference_service import InferenceService
from steelyard_schema.names import place
from steelyard_schema.spending import ServiceSpending, Spending, SpendingCaps


def service_routes(collection: Collection) -> Iterator[Route]:
    """Yield the routes that only inference services have."""
    yield Route(
        "GET", f"{collection.path}/{{id}}/spending", Grant(collection.resource, "get"), spending,
        "What a hosted model has cost", None, ServiceSpending, errors=(409,),
    )  # fmt: skip


async def spending(context: RequestContext) -> Response:
    """Calls, tokens and money that the service has spent, and its caps; only of a hosted model."""
    service = await load(context)
    assert isinstance(service, InferenceService)
    runner = service.runner.dump() if service.runner else {}
    if not is_hosted(runner):
        raise Conflict(f"runner: InferenceService {service.id} is not a hosted model, and pays no provider")
    caps = Caps(read_hosted_model(runner))
    book = Book(context.api.platform.store, place("InferenceService", service.id))
    await book.open()
    ledger = (book.last or Ledger(context.now.date())).at(context.now)
    held = ledger.sum_committed(context.now)[1] - ledger.total.tokens
    model = caps.model
    return model_response(
        ServiceSpending(
            service=service.id,
            day=ledger.day,
            today=_spending(ledger.today, caps),
            total=_spending(ledger.total, caps),
            heldTokens=held.total,
            heldCost=_money(caps.cost(held)),
            caps=SpendingCaps(
                tokensPerDay=model.tokens_per_day,
                tokensTotal=model.tokens_total,
                costPerDay=_money(model.cost_per_day),
                costTotal=_money(model.cost_total),
            ),
            currency=model.currency,
            updated=max((hold.time for hold in ledger.holds.values()), default=None),
        )
    )


def _spending(spent: CallTotals, caps: Caps) -> Spending:
    return Spending(
        calls=spent.calls,
        estimatedCalls=spent.estimated,
        inputTokens=spent.tokens.input,
        outputTokens=spent.tokens.output,
        cost=_money(caps.cost(spent.tokens)),
    )


def _money(amount: Decimal | None) -> str | None:
    return None if amount is None else amount_text(amount)
