"""Statuses that the orchestrator publishes, each once."""

from collections.abc import Callable, Sequence
from datetime import datetime

from steelyard.accounts.claims import Claim
from steelyard.broker.log import Log, Message
from steelyard.services.orchestrator.metrics import OrchestratorMetrics
from steelyard.services.status_commands import Status, status_command


class StatusReporter:
    """Publishes UpdateEntityStatus commands, and counts what they say."""

    def __init__(self, log: Log, metrics: OrchestratorMetrics, new_id: Callable[[], str]) -> None:
        self._log = log
        self._metrics = metrics
        self._new_id = new_id
        self._reported: dict[str, tuple[tuple[int, int], Status]] = {}

    async def report(self, claim: Claim, status: Status, now: datetime) -> None:
        """Publish the status, unless it was published already and the entity's state has not changed since."""
        if self._reported.get(claim.id) == (claim.position, status):
            return
        await self._log.publish([self._command(claim, status, now)])
        self._reported[claim.id] = (claim.position, status)
        if status.status == "Admitted":
            self._metrics.admitted.labels(claim.kind).inc()
            self._metrics.seconds.labels(claim.kind).observe((now - claim.created).total_seconds())
        self._count_failure(status)

    async def report_all(self, reports: Sequence[tuple[Claim, Status]], now: datetime) -> None:
        """Publish what the scheduler decided, in one write."""
        await self._log.publish([self._command(claim, status, now) for claim, status in reports])
        for _, status in reports:
            self._count_failure(status)

    def forget(self, id: str) -> None:
        """Drop the memory of an entity that has ended."""
        self._reported.pop(id, None)

    def _command(self, claim: Claim, status: Status, now: datetime) -> Message:
        return status_command(
            claim.id, claim.kind, status, source="orchestrator", time=now, command=self._new_id()
        )

    def _count_failure(self, status: Status) -> None:
        if status.status not in {"Admitted", "Created"}:
            self._metrics.failed.labels(status.reason or "").inc()
