"""Runs the orchestrator: one leader follows the state, admits, and keeps Kubernetes as the claims want it.

The platform's process or `steelyard service orchestrator` calls `run_orchestrator`.
"""

import asyncio
from collections.abc import Callable

from steelyard.accounts.claims import Claims
from steelyard.accounts.database import Superseded
from steelyard.broker.log import Log
from steelyard.services.leadership import Leadership, lead_until
from steelyard.services.orchestrator.leader import Leader
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.orchestrator.rules import AdmissionRules
from steelyard.services.orchestrator.secrets import SecretValues
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard_common.errors import leaves
from steelyard_kube.cluster import Cluster
from steelyard_kube.leader import Candidate, LeaderElector, LeaseLost

LEASE = "steelyard-orchestrator"


async def run_orchestrator(  # noqa: PLR0913 (the parts of the platform that it connects)
    log: Log,
    claims: Claims,
    cluster: Cluster,
    settings: OrchestratorSettings,
    rules: AdmissionRules,
    *,
    candidate: Candidate,
    new_id: Callable[[], str],
    stop: asyncio.Event,
    metrics: OrchestratorMetrics | None = None,
    secrets: SecretValues | None = None,
) -> None:
    """Work whenever elected, until `stop`. A failure of the log or of the claims ends the process: it starts again.

    `secrets` reads what accounts have stored; without it, workflows that need a secret wait.
    `new_id` makes ids of commands: no two are equal, also over restarts.
    """
    counters = metrics or OrchestratorMetrics()

    def elector() -> LeaderElector:
        return LeaderElector(cluster, candidate, namespace=settings.lease_namespace, name=LEASE)

    async def lead(leadership: Leadership) -> None:
        leader = Leader(
            log,
            claims,
            cluster,
            settings,
            rules,
            candidate=candidate,
            new_id=new_id,
            metrics=counters,
            leadership=leadership,
            secrets=secrets,
        )
        try:
            await leader.work()
        except (Superseded, ExceptionGroup) as error:
            reasons = list(leaves(error))
            if not all(isinstance(reason, Superseded) for reason in reasons):
                raise
            # The claims know a newer leader, though the lease did not say so yet: stand for election again.
            raise LeaseLost(str(reasons[0])) from error

    await lead_until(stop, elector, lead, counters.leading.labels(LEASE))
