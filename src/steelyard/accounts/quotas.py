"""Quotas: how much may be admitted at once, of everything and per account. Pure; usage is a sum over held claims."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field

from steelyard.accounts.ledger import Claim
from steelyard.schema.entities import AnyEntity
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.inference_session import InferenceSession, InferenceSessionSpec
from steelyard.schema.quantity import amount, quantity

ADMITTED = "workflows.dyff.io/admitted"
GLOBAL = "__global__"
UNLIMITED = "Unlimited"
_CPU_MEMORY = {
    "Audit": ("2", "2Gi"),
    "Dataset": ("1", "1Gi"),
    "Evaluation": ("2", "2Gi"),
    "InferenceSession": ("1", "1Gi"),
    "Model": ("1", "1Gi"),
    "Report": ("2", "2Gi"),
}
"""What a workflow of a kind counts as, of processors and memory."""
_NAMES = {"nvidia.com/gpu-t4": "T4 GPUs", "nvidia.com/gpu-l4": "L4 GPUs", ADMITTED: "admitted workflows"}


class QuotaSettings(BaseModel):
    """Limits by resource, in Kubernetes quantities; `Unlimited`, or none, is no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    everything: dict[str, str] = Field(
        default={ADMITTED: "200", "nvidia.com/gpu-t4": "32", "nvidia.com/gpu-l4": "16"},
        description="For all accounts together.",
    )
    account: dict[str, str] = Field(
        default={ADMITTED: "50", "nvidia.com/gpu-t4": "16", "nvidia.com/gpu-l4": "16"},
        description="For each account.",
    )


@dataclass(frozen=True)
class Shortage:
    """One quota that has no room: whose it is, of what, and the sentence for those who wait."""

    principal: str
    resource: str
    message: str


class Quotas:
    """The limits of the settings."""

    def __init__(self, settings: QuotaSettings) -> None:
        self._everything = _limits(settings.everything, "quotas.everything")
        self._account = _limits(settings.account, "quotas.account")

    def shortages(self, claim: Claim, held: Sequence[Claim]) -> Sequence[Shortage]:
        """The quotas without room for the claim beside those held, the account's own first."""
        own = [each for each in held if each.account == claim.account]
        found = _short(claim, own, self._account, "Account", f"accounts/{claim.account}")
        return [*found, *_short(claim, held, self._everything, "Global", GLOBAL)]


def _short(
    claim: Claim, held: Sequence[Claim], limits: Mapping[str, Decimal], whose: str, principal: str
) -> Iterable[Shortage]:
    for resource, wanted in claim.quantities.items():
        limit = limits.get(resource)
        if limit is None:
            continue
        used = usage(held, resource)
        if used + amount(wanted) > limit:
            name = _NAMES.get(resource, resource)
            said = f"{whose} quota exceeded: {name}: {quantity(used)}/{quantity(limit)}"
            yield Shortage(principal, resource, said)


def usage(held: Iterable[Claim], resource: str) -> Decimal:
    """How much of a resource the claims hold."""
    return sum((amount(each.quantities.get(resource, "0")) for each in held), Decimal(0))


def _limits(given: Mapping[str, str], field: str) -> dict[str, Decimal]:
    limits = {}
    for resource, limit in given.items():
        if limit != UNLIMITED:
            try:
                limits[resource] = amount(limit)
            except ValueError as error:
                raise ValueError(f"{field}.{resource}: {error}, nor is it {UNLIMITED}") from error
    return limits


def resource_allocation(entity: AnyEntity) -> Mapping[str, str]:
    """What an entity counts as while it is admitted, as the published schema reckons: quota arithmetic, no request."""
    kind = entity.kind
    if isinstance(entity, Evaluation):
        if entity.inferenceSessionReference is not None:
            return {ADMITTED: "1"}
        gpus = _gpus(entity.inferenceSession)
    else:
        gpus = _gpus(entity) if isinstance(entity, InferenceSession) else {}
    if gpus:
        return {**gpus, ADMITTED: "1"}
    if kind not in _CPU_MEMORY:
        return {}
    cpu, memory = _CPU_MEMORY[kind]
    return {"cpu": cpu, "memory": memory, ADMITTED: "1"}


def _gpus(session: InferenceSessionSpec) -> dict[str, str]:
    """GPUs of all replicas; of several types that would do, the first counts."""
    runner = session.inferenceService.runner
    accelerator = session.accelerator or (runner.accelerator if runner else None)
    if accelerator is None or accelerator.gpu is None:
        return {}
    nodes = runner.nodes if runner else 1
    return {accelerator.gpu.hardwareTypes[0]: str(accelerator.gpu.count * nodes * session.replicas)}
