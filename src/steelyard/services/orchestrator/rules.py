"""The rules of admission: what a workflow takes of the quotas, what they allow at once, and what within a time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steelyard.accounts.quotas import Quotas, QuotaSettings, Rates, resource_allocation
from steelyard.schema.entities import AnyEntity
from steelyard.services.orchestrator.admission import Limits
from steelyard.services.orchestrator.exemptions import ExemptingLimits

Allocation = Callable[[AnyEntity], Mapping[str, str]]
"""Quantities that an entity takes, by resource."""


@dataclass(frozen=True)
class AdmissionRules:
    """Limits on what is held at once, rates of admission, and the quantities that an entity takes."""

    limits: Limits
    rates: Rates
    allocation: Allocation


def rules_of(settings: QuotaSettings) -> AdmissionRules:
    """Return the rules of the settings file."""
    return AdmissionRules(ExemptingLimits(Quotas(settings)), Rates(settings.rates), resource_allocation)
