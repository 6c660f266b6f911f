"""One file of settings for everything: `steelyard.toml`, overridden by `STEELYARD_…` environment variables.

The engines are addresses, so that growing from one machine to many is an edit of this file alone.
"""

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from steelyard import bounded_toml
from steelyard.accounts.quotas import QuotaSettings
from steelyard.accounts.webhooks.settings import WebhookSettings
from steelyard.api.settings import ApiSettings
from steelyard.errors import UsageError
from steelyard.gpu_settings import GpuSettings
from steelyard.monitoring import Listen
from steelyard.operator.settings import OperatorSettings
from steelyard.services.backup.settings import BackupSettings
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.telemetry_settings import TelemetrySettings
from steelyard_schema.egress import EgressSettings
from steelyard_schema.faults import faults_text


class Settings(BaseSettings):
    """All settings. Environment: `STEELYARD_STORAGE`, `STEELYARD_OPERATOR__MAX_ATTEMPTS` and so on."""

    model_config = SettingsConfigDict(
        env_prefix="STEELYARD_", env_nested_delimiter="__", extra="forbid", defer_build=True
    )

    storage: str = Field(
        default="",
        description="URL of the object storage: file:///PATH, s3://BUCKET/PREFIX, gs://… or az://…; by default a "
        "folder of the state folder.",
    )
    backup: str = Field(
        default="", description="URL of the backup of entities; by default a folder of the state folder."
    )
    mirror: str = Field(
        default="",
        description="URL of a second bucket, into which storage and backup are copied once a day; by default none.",
    )
    log: str = Field(
        default="",
        description="The event log, sqlite:PATH or kafka://HOST:PORT/PREFIX; by default in the state folder.",
    )
    view: str = Field(
        default="",
        description="The entity view, sqlite:PATH or mongodb://HOST/DATABASE; by default in the state folder.",
    )
    accounts: str = Field(
        default="",
        description="Accounts, tokens, outbox and claims, sqlite:PATH or postgresql://USER@HOST/DATABASE; by default "
        "in the state folder.",
    )
    secret_keys: str = Field(
        default="",
        description="Path of the file with the keys that encrypt secrets, one a line: the first encrypts, all decrypt. "
        "By default in the state folder, where it is made.",
    )
    kubernetes: str = Field(
        default="",
        description="Path of a kubeconfig; by default the embedded Kubernetes of the state folder.",
    )
    metrics: Listen | None = Field(
        default=None,
        description="HOST:PORT where a process of the platform serves /metrics, /healthz and /readyz; :PORT is every "
        "address, empty none. Absent: the API itself serves its process's; others are on :8080 in a cluster's Pod, "
        "else on a free port of 127.0.0.1.",
    )
    operator: OperatorSettings = Field(
        default_factory=OperatorSettings, description="The operator's settings."
    )
    api: ApiSettings = Field(default_factory=ApiSettings, description="The API's settings.")
    orchestrator: OrchestratorSettings = Field(
        default_factory=OrchestratorSettings, description="The orchestrator's settings."
    )
    quotas: QuotaSettings = Field(
        default_factory=QuotaSettings, description="How much may be admitted at once."
    )
    archive: BackupSettings = Field(
        default_factory=BackupSettings, description="The history of entities that the backup keeps."
    )
    egress: EgressSettings = Field(
        default_factory=EgressSettings, description="Addresses outside that may be called."
    )
    webhooks: WebhookSettings = Field(default_factory=WebhookSettings, description="Bounds of webhooks.")
    telemetry: TelemetrySettings = Field(
        default_factory=TelemetrySettings, description="Other systems that are notified of what happens."
    )
    gpus: GpuSettings = Field(
        default_factory=GpuSettings, description="The GPUs of the machine that `steelyard up` runs on."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment before arguments: `load` passes the file's content as arguments."""
        return (env_settings, init_settings)


def load(path: Path | None, state: Path) -> Settings:
    """The settings of `path` (a TOML file) for the state folder `state`.

    Raises UsageError, which names the field, when the file or a variable is wrong.
    """
    content: dict[str, Any] = {}
    if path is not None:
        if not path.is_file():
            raise UsageError(f"--settings {path}: there is no such file")
        try:
            content = bounded_toml.load(bounded_toml.read(path))
        except (bounded_toml.BadToml, OSError) as error:
            raise UsageError(f"--settings {path}: {error}") from error
    try:
        settings = Settings(**content)
    except ValidationError as error:
        raise UsageError(f"settings: {faults_text(error, model=Settings)}") from error
    folder = state.resolve()
    defaults = {
        "storage": f"file://{folder / 'storage'}",
        "backup": f"file://{folder / 'backup'}",
        "log": f"sqlite:{folder / 'log.db'}",
        "view": f"sqlite:{folder / 'view.db'}",
        "accounts": f"sqlite:{folder / 'accounts.db'}",
        "kubernetes": str(folder / "kubeconfig"),
        "secret_keys": str(folder / "pki" / "secret-keys"),
    }
    return settings.model_copy(
        update={name: getattr(settings, name) or default for name, default in defaults.items()}
    )
