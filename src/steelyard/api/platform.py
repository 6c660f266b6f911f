"""What the API works on: the engines that it is given, and what it makes of them once."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry

from steelyard.accounts.database import Accounts
from steelyard.accounts.open import Ledger
from steelyard.accounts.tokens import Tokens
from steelyard.api.commands.commands import Commands
from steelyard.api.commands.outcomes import Outcomes
from steelyard.api.commands.relay import Settling
from steelyard.api.entities.completeness import Completeness
from steelyard.api.entities.reading import Entities
from steelyard.api.http.metrics import Metrics
from steelyard.api.inference_sessions.replicas import Replicas
from steelyard.api.quarantine.administration import QuarantineWatch
from steelyard.api.settings import ApiSettings
from steelyard.api.workflows.logs import FolderPodLogs, PodLogs
from steelyard.broker.log import Log
from steelyard.storage.store import Store
from steelyard.views.view import View


@dataclass(frozen=True)
class Platform:
    """The engines.

    `signing_secret` signs URLs of uploads and downloads; `new_id` gives ids that nobody can guess; `pods` is one
    machine's folder of Pods; `registry` holds the figures of what else runs in the process.
    """

    log: Log
    view: View
    ledger: Ledger
    store: Store
    settings: ApiSettings
    signing_secret: bytes
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    pods: Path | None = None
    registry: CollectorRegistry | None = None


class Api:
    """One API process."""

    def __init__(self, platform: Platform, replicas: Replicas | None = None) -> None:
        log, view, outbox = platform.log, platform.view, platform.ledger.outbox
        self.platform = platform
        self.outcomes = Outcomes(log)
        self.settling = Settling(log, view, outbox, self.outcomes, platform.clock)
        self.metrics = Metrics(platform.registry)
        self.quarantine = QuarantineWatch(log, self.metrics.registry)
        self.completeness = Completeness(log, view)
        self.entities = Entities(
            view, outbox, self.metrics.left_out, self.quarantine.shown, self.completeness.check
        )
        self.commands = Commands(
            log, view, outbox, self.outcomes, self.settling, platform.settings, platform.new_id
        )
        self.tokens = Tokens(platform.ledger.accounts, new_id=platform.new_id)
        self.replicas = replicas or Replicas()
        self.healthy = False
        self.pod_logs: PodLogs | None = FolderPodLogs(platform.pods) if platform.pods else None

    @property
    def accounts(self) -> Accounts:
        return self.platform.ledger.accounts
