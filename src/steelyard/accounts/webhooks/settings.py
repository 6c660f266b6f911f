"""Settings of webhooks: the table `[webhooks]` of `steelyard.toml`."""

from pydantic import BaseModel, ConfigDict, Field


class WebhookSettings(BaseModel):
    """Bounds of webhooks. Which hosts they may be sent to, `egress.webhooks` says."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    per_account: int = Field(default=20, ge=0, le=1000, description="Maximum webhooks of one account.")
    backlog: int = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="Maximum events that wait for one webhook; more are dropped.",
    )
    timeout_seconds: float = Field(
        default=10.0, gt=0, le=60, description="Time in which a receiver has to answer."
    )
    longest_pause_seconds: float = Field(
        default=600.0,
        gt=0,
        le=86_400,
        description="Longest pause before another try; the first is about a second, and each is twice the last.",
    )
    disable_hours: float = Field(
        default=24.0,
        gt=0,
        le=720,
        description="Time without an accepted event after which a failing webhook is disabled.",
    )
    keep_hours: float = Field(
        default=72.0, gt=0, le=336, description="Age at which an event that was not accepted is dropped."
    )
