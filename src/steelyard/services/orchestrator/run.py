"""Runs the orchestrator: one leader follows the state, admits, and keeps Kubernetes as the claims want it.

`run_orchestrator` is started by the platform's process or by `steelyard service orchestrator`.
"""

import asyncio
from collections.abc import Callable

from steelyard.accounts.database import Claims, Succeeded
from steelyard.accounts.quotas import Quotas, QuotaSettings, Rates, resource_allocation
from steelyard.broker.log import Log
from steelyard.kube.cluster import Cluster
from steelyard.kube.leader import Candidate, LeaderElector, LeaseLost
from steelyard.services.leadership import Leading, lead_until
from steelyard.services.orchestrator.exemptions import ExemptingLimits
from steelyard.services.orchestrator.leader import Leader, Means
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.settings import OrchestratorSettings

LEASE = "steelyard-orchestrator"


async def run_orchestrator(  # noqa: PLR0913 (what it works on, each of its own kind)
    log: Log,
    claims: Claims,
    cluster: Cluster,
    settings: OrchestratorSettings,
    quotas: QuotaSettings,
    *,
    candidate: Candidate,
    new_id: Callable[[], str],
    stop: asyncio.Event,
    metrics: OrchestratorMetrics | None = None,
) -> None:
    """Work whenever elected, until `stop`. What the log or the claims raise ends the process: it starts anew."""
    limits = ExemptingLimits(Quotas(quotas))
    counts = metrics or OrchestratorMetrics()
    rates = Rates(quotas.rates)
    means = Means(
        log, claims, cluster, settings, limits, resource_allocation, counts, candidate, new_id, rates
    )
    await orchestrate(means, stop)


async def orchestrate(means: Means, stop: asyncio.Event) -> None:
    """The same, with everything given."""

    def elector() -> LeaderElector:
        namespace = means.settings.lease_namespace
        return LeaderElector(means.cluster, means.candidate, namespace=namespace, name=LEASE)

    await lead_until(stop, elector, lambda leading: _lead(means, leading))


async def _lead(means: Means, leading: Leading) -> None:
    """Lead until the end. A leader that finds another one in the claims stands for election again."""
    try:
        await Leader(means, leading).work()
    except* Succeeded as succeeded:
        raise LeaseLost(str(succeeded.exceptions[0])) from succeeded
