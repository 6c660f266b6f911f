"""Webhooks: addresses of an account that are notified when an entity has ended."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import SchemaModel, Time
from steelyard_schema.bounds import Id, Line, Natural, Word
from steelyard_schema.status import ENDINGS, KINDS, TERMINAL

ENDED = TERMINAL | {status for endings in ENDINGS.values() for status in endings}
"""Statuses that are reported."""
WebhookStatus = Literal["Active", "Disabled"]
Kinds = Annotated[list[Word], Field(max_length=len(KINDS))]
Statuses = Annotated[list[Word], Field(max_length=len(ENDED))]


class Webhook(SchemaModel):
    """An address that is notified when an entity has ended which its account may see."""

    id: Id
    """Id of the webhook."""
    account: Id
    """Id of the account that it belongs to."""
    url: Line
    """Address that events are sent to."""
    kinds: Kinds = Field(default_factory=list)
    """Kinds of entities whose events are sent; empty for all."""
    statuses: Statuses = Field(default_factory=list)
    """Statuses whose events are sent; empty for all."""
    creationTime: Time
    """Time at which it was registered. Earlier events are not sent."""
    status: WebhookStatus = "Active"
    """Active or Disabled. Events are kept for an active webhook alone."""
    reason: str | None = None
    """Reason in one word: DeliveryFailed while events are sent again; of a disabled one Failing or Gone."""
    message: str | None = None
    """Reason in a sentence, with what the receiver answered last."""
    waiting: Natural = 0
    """Number of events that wait to be sent."""
    delivered: Natural = 0
    """Number of events that the receiver has accepted."""
    dropped: Natural = 0
    """Number of events that were never accepted: they were too many, or too old."""
    lastDelivery: Time | None = None
    """Time at which the receiver last accepted an event."""


class WebhookAndSecret(SchemaModel):
    """A webhook and the secret that its events are signed with, which no other answer has."""

    webhook: Webhook
    """The webhook."""
    secret: str = Field(repr=False)
    """Secret in the form of Standard Webhooks: whsec_ and base64."""
