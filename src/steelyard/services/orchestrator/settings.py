"""Settings of the services. `steelyard.settings` reads them from the one settings file."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, StringConstraints

STORAGE_SECRET = "steelyard-storage"
"""Name of the Secret with the storage's credentials in each account's namespace."""
DOCKER_CONFIG = ".dockerconfigjson"
"""Key of a Secret of the type kubernetes.io/dockerconfigjson."""


def _free_name(name: str) -> str:
    if name == STORAGE_SECRET:
        raise ValueError(f"{name} is the name of the Secret that opens the storage")
    return name


def _docker_config(content: SecretStr) -> SecretStr:
    try:
        registries = json.loads(content.get_secret_value())["auths"]
    except (ValueError, TypeError, KeyError):
        registries = None
    if not isinstance(registries, dict):
        raise ValueError(f"should be the content of {DOCKER_CONFIG}: a JSON object with the key auths")
    return content


PullSecretName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$", max_length=253),
    AfterValidator(_free_name),
]


class OrchestratorSettings(BaseModel):
    """Settings of the orchestrator. Times are in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    keep_seconds: int = Field(
        default=3600, ge=0, description="How long the resource of a finished workflow stays for inspection."
    )
    upload_seconds: int = Field(
        default=7 * 24 * 3600, ge=1, description="How long an upload may take from its entity's creation."
    )
    backfill_seconds: int = Field(
        default=600, ge=0, description="Age from which on what a waiting workflow lacks is kept for it."
    )
    reconcile_seconds: float = Field(
        default=60.0, gt=0, description="Pause between two comparisons of claims with resources."
    )
    release_seconds: float = Field(
        default=1.0, gt=0, description="Pause between two looks whether an ended workflow's Pods have ended."
    )
    recreate_seconds: float = Field(
        default=2.0, ge=0, description="Pause before a resource that somebody deleted is made again."
    )
    retell_seconds: float = Field(
        default=5.0, ge=0, description="Least time between two messages that differ in the position alone."
    )
    workers: int = Field(default=8, ge=1, description="Resources made or deleted at the same time.")
    lease_namespace: str = Field(
        default="default",
        description="Namespace of the leader's lease. Absent: the setting `lease_namespace`.",
    )
    namespace_labels: dict[str, str] = Field(
        default_factory=dict,
        description="Further labels of the namespaces of accounts, such as those of Pod Security.",
    )
    api_namespace: dict[str, str] = Field(
        default={"app.kubernetes.io/part-of": "steelyard"},
        description="Labels of the namespace whose Pods may call runners, if they have the label "
        "app.kubernetes.io/component: api.",
    )
    egress: list[dict[str, Any]] | None = Field(
        default=None,
        description="What Pods in the namespaces of accounts may call, as rules of a NetworkPolicy's egress. Absent: "
        "everything.",
    )
    storage_credentials: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Environment variables that open the storage, such as AWS_ACCESS_KEY_ID; kept in a Secret "
        "of each account's namespace. Storage in a folder needs none.",
    )
    pull_secrets: dict[PullSecretName, Annotated[SecretStr, AfterValidator(_docker_config)]] = Field(
        default_factory=dict,
        description="Secrets that open registries, by name, with the content of their `.dockerconfigjson`; kept in "
        "each account's namespace, where `pods.pull_secrets` names them.",
    )
