"""One file of settings for everything: `steelyard.toml`, overridden by `STEELYARD_…` environment variables.

The engines are addresses, so that growing from one machine to many is an edit of this file alone.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from steelyard.accounts.quotas import QuotaSettings
from steelyard.accounts.webhooks.settings import WebhookSettings
from steelyard.api.settings import ApiSettings
from steelyard.operator.pod_settings import PodSettings
from steelyard.operator.settings import OperatorSettings
from steelyard.services.backup.settings import BackupSettings
from steelyard.services.orchestrator.settings import OrchestratorSettings
from steelyard.services.storage_server.settings import StorageServerSettings
from steelyard.telemetry.monitoring import Listen
from steelyard.telemetry.settings import TelemetrySettings
from steelyard_common import bounded_toml
from steelyard_common.errors import UsageError
from steelyard_common.whole_files import TooLarge, read_whole
from steelyard_kube.kubeconfig import pod_namespace
from steelyard_schema.egress import EgressSettings
from steelyard_schema.faults import faults_text

IN_CLUSTER = "in-cluster"
"""Value of `kubernetes` for the account of the Pod that the process runs in."""


_PREFIX, _FILE = "STEELYARD_", "_FILE"


class GpuSettings(BaseModel):
    """Rules by which the process kubelet gives out the GPUs of its machine."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    shares: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Pods that may use one GPU at the same time, by turns. From 2 on nothing divides its memory.",
    )
    unasked: Literal["none", "all"] = Field(
        default="none",
        description="GPUs that a container sees which asks for none: `none`, or `all` of the machine's.",
    )
    others: Literal["wait", "ignore"] = Field(
        default="wait",
        description="A GPU that a process outside all Pods uses: `wait` for the process's end, or `ignore` it.",
    )
    library: str = Field(
        default="pynvml", description="Python module that speaks to NVML, with the interface of nvidia-ml-py."
    )


class Settings(BaseSettings):
    """All settings. Environment: `STEELYARD_STORAGE`, `STEELYARD_OPERATOR__MAX_ATTEMPTS` and so on.

    With `_FILE` at its end a variable names a file with the value, such as `STEELYARD_ACCOUNTS_FILE`.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_nested_delimiter="__", extra="forbid", defer_build=True
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
        description="Path of a kubeconfig, or `in-cluster` for the account of the Pod that the process runs in. By "
        "default the embedded Kubernetes of the state folder where it has run, else the Pod's account where there is "
        "one, else that embedded Kubernetes.",
    )
    lease_namespace: str = Field(
        default="",
        description="Namespace of the leases by which one operator, orchestrator and informer of several leads. By "
        "default that of the Pod whose account is used, else `default`.",
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
    storage_server: StorageServerSettings = Field(
        default_factory=StorageServerSettings,
        description="The server that gives the storage folder to Pods which cannot mount it.",
    )
    pods: PodSettings = Field(
        default_factory=PodSettings, description="Settings of all Pods that the platform makes."
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
        """Environment before arguments: `load` passes the file's content as arguments, and that of other files."""
        assert isinstance(env_settings, EnvSettingsSource)
        variables = env_settings.env_vars.items()
        env_settings.env_vars = {name: value for name, value in variables if file_setting(name) is None}
        return (env_settings, init_settings)


def add_file_variables(content: dict[str, Any], environment: Mapping[str, str] = os.environ) -> None:
    """Put into `content` the values in the files that variables with `_FILE` at their end name.

    The value is the text of the file without the end of its last line, and for a table or a list its JSON. For a table
    of variables it may be a folder with a file for each, as Kubernetes mounts a Secret. Raises UsageError.
    """
    for variable, place in environment.items():
        path = file_setting(variable)
        field = find_field(path or ())
        if path is None or field is None or not place:
            continue
        direct = variable.removesuffix(_FILE)
        if direct in environment:
            raise UsageError(f"{variable}: {direct} is set, too; leave one of them out")
        try:
            value = read_value(Path(place), field)
        except (OSError, TooLarge, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"{variable} {place}: cannot be read: {words}") from error
        table = content
        for part in path[:-1]:
            inner = table.get(part)
            table[part] = dict(inner) if isinstance(inner, dict) else {}
            table = table[part]
        table[path[-1]] = value


def file_setting(variable: str) -> list[str] | None:
    """Return the names of the setting whose value stands in the file that a variable names; None for others."""
    upper = variable.upper()
    if not (upper.startswith(_PREFIX) and upper.endswith(_FILE)):
        return None  # a variable of another program
    path = upper.removeprefix(_PREFIX).removesuffix(_FILE).lower().split("__")
    # Others, such as STEELYARD_PROGRESS_FILE, are variables of steps.
    return path if find_field(path) is not None else None


def find_field(path: Sequence[str], *, parts: bool = False) -> FieldInfo | None:
    """Return the setting of this path of names; None where there is none, or, without `parts`, only a part of them."""
    model: type[BaseModel] = Settings
    for number, name in enumerate(path, 1):
        field = model.model_fields.get(name)
        inner = field.annotation if field is not None else None
        is_part = isinstance(inner, type) and issubclass(inner, BaseModel)
        if number == len(path):
            return None if is_part and not parts else field
        if not is_part:
            return None
        model = inner  # type: ignore[assignment]
    return None


def find_bad_json(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the variable whose value should be JSON and is not."""
    for variable, value in environment.items():
        path = variable.upper().removeprefix(_PREFIX).lower().split("__")
        field = find_field(path, parts=True) if variable.upper().startswith(_PREFIX) else None
        if field is not None and is_complex(field):
            try:
                json.loads(value)
            except ValueError:
                return variable
    return _PREFIX


def read_value(place: Path, field: FieldInfo) -> object:
    """Return the value of a setting from its file: its text, or for a table or a list its JSON."""
    if is_table(field) and place.is_dir():
        # The other names are the links by which the kubelet replaces all files at once.
        files = [
            file for file in sorted(place.iterdir()) if not file.name.startswith("..") and file.is_file()
        ]
        return {file.name: read_text(file) for file in files}
    text = read_text(place)
    return json.loads(text) if is_complex(field) else text


def is_table(field: FieldInfo) -> bool:
    kind = get_origin(field.annotation)
    return isinstance(kind, type) and issubclass(kind, Mapping)


def is_complex(field: FieldInfo) -> bool:
    """Return whether a variable with the value itself would hold JSON: a file is read as that variable is."""
    source = EnvSettingsSource(Settings)
    is_union = get_origin(field.annotation) in (Union, UnionType)
    kinds = get_args(field.annotation) if is_union else ()
    return source.field_is_complex(field) or any(
        source.field_is_complex(FieldInfo.from_annotation(kind)) for kind in kinds
    )


def read_text(place: Path) -> str:
    return read_whole(place).decode().removesuffix("\n").removesuffix("\r")


def load(path: Path | None, state: Path, pod: Callable[[], str | None] = pod_namespace) -> Settings:
    """The settings of `path` (a TOML file) for the state folder `state`.

    `pod` returns the namespace of the Pod that this process runs in with an account, None outside of one. Raises
    UsageError, which names the field, when the file or a variable is wrong.
    """
    content: dict[str, Any] = {}
    if path is not None:
        if not path.is_file():
            raise UsageError(f"--settings {path}: there is no such file")
        try:
            content = bounded_toml.load(bounded_toml.read(path))
        except (bounded_toml.BadToml, OSError) as error:
            raise UsageError(f"--settings {path}: {error}") from error
    add_file_variables(content)
    try:
        settings = Settings(**content)
    except SettingsError as error:
        # The value is not repeated: that of the storage's credentials is a secret.
        raise UsageError(
            f"{find_bad_json()}: should be JSON: the value is that of a table or a list"
        ) from error
    except ValidationError as error:
        raise UsageError(f"settings: {faults_text(error, model=Settings)}") from error
    for name in settings.operator.model_fields_set:
        field = OperatorSettings.model_fields[name]
        if field.exclude:  # the operator's program gives it: what stands here would not count
            raise UsageError(f"settings: operator.{name}: cannot be set here. {field.description}")
    folder = state.resolve()
    defaults = {
        "storage": f"file://{folder / 'storage'}",
        "backup": f"file://{folder / 'backup'}",
        "log": f"sqlite:{folder / 'log.db'}",
        "view": f"sqlite:{folder / 'view.db'}",
        "accounts": f"sqlite:{folder / 'accounts.db'}",
        "kubernetes": choose_kubernetes(folder / "kubeconfig", pod),
        "secret_keys": str(folder / "pki" / "secret-keys"),
    }
    chosen = {name: getattr(settings, name) or default for name, default in defaults.items()}
    leases = settings.lease_namespace or (pod() if chosen["kubernetes"] == IN_CLUSTER else None) or "default"
    return settings.model_copy(update=chosen | {"lease_namespace": leases} | with_leases(settings, leases))


def with_leases(settings: Settings, namespace: str) -> dict[str, BaseModel]:
    """Return the parts whose leader has its lease in the installation's namespace unless they name their own."""
    parts: tuple[tuple[str, BaseModel], ...] = (
        ("operator", settings.operator),
        ("orchestrator", settings.orchestrator),
    )
    return {
        name: part.model_copy(update={"lease_namespace": namespace})
        for name, part in parts
        if "lease_namespace" not in part.model_fields_set
    }


def choose_kubernetes(own: Path, pod: Callable[[], str | None]) -> str:
    """Return the Kubernetes that is used where no setting names one."""
    # `steelyard up` in a Pod has a Kubernetes of its own: its parts start after it has written the kubeconfig.
    return str(own) if own.exists() or pod() is None else IN_CLUSTER
