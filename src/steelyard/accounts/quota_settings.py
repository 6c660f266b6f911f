"""The settings of quotas: limits by resource, in Kubernetes quantities. Part of `steelyard.toml`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from steelyard_schema.base import Time
from steelyard_schema.quantity import amount

ADMITTED = "workflows.dyff.io/admitted"
GLOBAL = "__global__"
UNLIMITED = "Unlimited"
_EACH = "accounts/*"
LONGEST = timedelta(days=366)
"""The longest window of a rate."""


def _limit(text: str) -> str:
    if text != UNLIMITED:
        _number(text)
    return text


def _number(text: str) -> str:
    if amount(text) < 0:
        raise ValueError(f"{text!r} should not be negative")
    return text


def _principal(text: str) -> str:
    whose, _, account = text.partition("/")
    if text != GLOBAL and (whose != "accounts" or not account):
        raise ValueError(f"{text!r} should be {GLOBAL}, accounts/<account> or {_EACH}")
    return text


def _window(duration: timedelta) -> timedelta:
    if duration <= timedelta(0):
        raise ValueError(f"{duration} should be more than nothing")
    if duration > LONGEST:
        raise ValueError(
            f"{duration} should be at most {LONGEST.days} days: older admissions are not remembered"
        )
    return duration


Limits = dict[str, Annotated[str, AfterValidator(_limit)]]


class RateSettings(BaseModel):
    """Limit on admissions within a period; work that has ended counts too."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    principal: Annotated[str, AfterValidator(_principal)] = Field(
        default=_EACH, description="`__global__`, one account, accounts/<account>, or each, `accounts/*`."
    )
    resource: str = Field(default=ADMITTED, description="The counted quantity.")
    limit: Annotated[str, AfterValidator(_number)] = Field(description="How much of it.")
    duration: Annotated[timedelta, AfterValidator(_window)] = Field(
        description="Within how long, such as PT1H; at most 366 days."
    )
    epoch: Time | None = Field(
        default=None,
        description="When a period begins; others follow one another. Without it the last while counts.",
    )

    def concerns(self, account: str) -> bool:
        return self.principal in {GLOBAL, _EACH, f"accounts/{account}"}

    def start(self, now: datetime) -> datetime:
        """Return the start of the period that `now` is in."""
        if self.epoch is None:
            return now - self.duration
        return now - (now.astimezone(UTC) - self.epoch) % self.duration


class QuotaSettings(BaseModel):
    """Limits by resource, in Kubernetes quantities; `Unlimited`, or no entry, means that there is no limit.

    A resource that ends in `*` stands for each whose name begins so.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    everything: Limits = Field(
        default={ADMITTED: "200", "nvidia.com/gpu-t4": "32", "nvidia.com/gpu-l4": "16"},
        description="For all accounts together.",
    )
    account: Limits = Field(
        default={ADMITTED: "50", "nvidia.com/gpu": "16", "nvidia.com/gpu-*": "16", "nvidia.com/mig-*": "16"},
        description="For each account.",
    )
    accounts: dict[str, Limits] = Field(
        default={}, description="For single accounts, resource by resource in place of `account`."
    )
    rates: tuple[RateSettings, ...] = Field(
        default=(), description="How much may be admitted within a while."
    )


@dataclass(frozen=True)
class LimitsOf:
    """Limits as numbers; None stands for no limit."""

    named: Mapping[str, Decimal | None]
    beginnings: Mapping[str, Decimal | None]

    def has(self, resource: str) -> bool:
        return resource in self.named or self._beginning(resource) is not None

    def find_limit(self, resource: str) -> Decimal | None:
        """Return the limit of a resource: by its name, else by the longest prefix."""
        if resource in self.named:
            return self.named[resource]
        beginning = self._beginning(resource)
        return None if beginning is None else self.beginnings[beginning]

    def _beginning(self, resource: str) -> str | None:
        return max(
            (beginning for beginning in self.beginnings if resource.startswith(beginning)),
            key=len,
            default=None,
        )


def make_limits(given: Mapping[str, str]) -> LimitsOf:
    numbers = {resource: None if limit == UNLIMITED else amount(limit) for resource, limit in given.items()}
    return LimitsOf(
        {resource: limit for resource, limit in numbers.items() if not resource.endswith("*")},
        {resource[:-1]: limit for resource, limit in numbers.items() if resource.endswith("*")},
    )
