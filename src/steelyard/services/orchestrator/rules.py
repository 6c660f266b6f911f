"""The rules of admission: what a workflow takes of the quotas, what they allow at once, and what within a time."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from steelyard.accounts.quotas import (
    NO_CREATION_RATES,
    CreationRates,
    Quotas,
    QuotaSettings,
    Rates,
    resource_allocation,
)
from steelyard.accounts.set_quotas import set_quotas
from steelyard.services.orchestrator.admission import Limits
from steelyard.services.orchestrator.exemptions import ExemptingLimits
from steelyard_schema.entities import AnyEntity
from steelyard_schema.quota import Quota

Allocation = Callable[[AnyEntity], Mapping[str, str]]
"""Quantities that an entity takes, by resource."""


@dataclass(frozen=True)
class AdmissionRules:
    """Limits on claims held at once, rates of admission, and the quantities that an entity takes."""

    limits: Limits
    rates: Rates
    allocation: Allocation
    creations: CreationRates = NO_CREATION_RATES
    revised: Callable[[Iterable[Quota]], "AdmissionRules"] | None = None
    """Makes the rules with quotas that requests have set; None where nothing but these rules counts."""


def make_rules(settings: QuotaSettings, quotas: Iterable[Quota] = ()) -> AdmissionRules:
    """Return the rules of the settings file, and in their place those of quotas that requests have set."""
    in_force = set_quotas(quotas)
    return AdmissionRules(
        ExemptingLimits(Quotas(settings, in_force)),
        Rates(settings.rates, in_force),
        resource_allocation,
        CreationRates(in_force),
        lambda newest: make_rules(settings, newest),
    )
