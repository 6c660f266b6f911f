"""The parts of one API process: the engines that it is given, and what it builds on them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from steelyard.accounts.database import Accounts
from steelyard.accounts.open import AccountsDatabase
from steelyard.accounts.secrets import SecretKeys, Secrets
from steelyard.accounts.tokens import Tokens
from steelyard.accounts.webhooks.settings import WebhookSettings
from steelyard.api.commands.commands import Commands
from steelyard.api.commands.outcomes import OutcomeReader
from steelyard.api.commands.relay import OutboxRelay
from steelyard.api.datasets.row_faults import RowFaults
from steelyard.api.entities.completeness import Completeness
from steelyard.api.entities.reading import EntityReader
from steelyard.api.entities.turns import Turns
from steelyard.api.http.metrics import Metrics
from steelyard.api.inference_sessions.replicas import Replicas
from steelyard.api.quarantine.watch import QuarantineWatch
from steelyard.api.settings import ApiSettings
from steelyard.api.workflows.pod_logs import FolderPodLogs, PodLogs
from steelyard.broker.log import Log, Record
from steelyard.views.view import View
from steelyard_common.figures import Figures
from steelyard_common.types import Json
from steelyard_evaluation.storage.store import Store
from steelyard_schema.egress import EgressSettings


class Backup(Protocol):
    """The backup, as far as the API asks it."""

    async def last_content(self, id: str, latest: Record) -> Json | None:
        """An entity with the status that it had before it was deleted; None where the backup has it no more.

        `latest` is its newest record. Raises SteelyardError where a file is damaged, and StorageError.
        """
        ...


@dataclass(frozen=True)
class Platform:
    """Engines and settings of one API process."""

    log: Log
    view: View
    accounts_database: AccountsDatabase
    store: Store
    settings: ApiSettings
    signing_secret: bytes
    """Key of the signatures of upload and download URLs."""
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    """Makes ids that nobody can guess."""
    pods: Path | None = None
    """Folder of the Pods of one machine; None on a cluster."""
    figures: Figures | None = None
    """Figures of the process, besides the API's."""
    backup: Backup | None = None
    secret_keys: SecretKeys | None = None
    """Keys that encrypt secrets; without them no secret can be stored."""
    egress: EgressSettings = field(default_factory=EgressSettings)
    """Addresses outside that may be called."""
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)


class Api:
    """State of one API process, which all requests share."""

    def __init__(self, platform: Platform, replicas: Replicas | None = None) -> None:
        log, view, outbox = platform.log, platform.view, platform.accounts_database.outbox
        self.platform = platform
        self.outcomes = OutcomeReader(log)
        self.relay = OutboxRelay(
            log,
            view,
            outbox,
            self.outcomes,
            platform.clock,
            platform.new_id,
            platform.settings.lease_seconds,
        )
        self.metrics = Metrics(platform.figures)
        self.metrics.figures.look_up("outbox", self._show_backlog)
        self.quarantine = QuarantineWatch(log, self.metrics.registry)
        self.completeness = Completeness(log, view)
        self.entities = EntityReader(
            view, outbox, self.metrics.count_left_out, self.quarantine.with_reason, self.completeness.check
        )
        self.commands = Commands(
            log, view, outbox, self.outcomes, self.relay, platform.settings, platform.new_id
        )
        given = platform.settings.administrator_token.get_secret_value()
        self.tokens = Tokens(platform.accounts_database.accounts, new_id=platform.new_id, given=given)
        self.secrets = Secrets(platform.accounts_database.secrets, platform.secret_keys)
        self.replicas = replicas or Replicas()
        self.turns = Turns()
        self.row_faults = RowFaults(platform.store)
        self.healthy = False
        self.draining = False
        """True from the moment at which the process was asked to end."""
        self.ending = asyncio.Event()
        """Set when no more requests are taken: streams without an end of their own end now."""
        self.pod_logs: PodLogs | None = FolderPodLogs(platform.pods) if platform.pods else None

    async def _show_backlog(self) -> None:
        backlog = await self.platform.accounts_database.outbox.backlog()
        self.metrics.show_backlog(backlog, self.platform.clock())

    @property
    def accounts(self) -> Accounts:
        return self.platform.accounts_database.accounts
