"""Accounts, their API keys, and what a key may do."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import SchemaModel, Time
from steelyard_schema.bounds import FEW, MANY, LabelKey, Word
from steelyard_schema.ids import NULL_ID

APIFunction = Literal[
    "consume", "create", "get", "query", "edit", "download", "upload", "data", "strata", "terminate", "delete", "*",
]  # fmt: skip

APIResource = Literal[
    "accounts", "analyses", "artifacts", "audits", "auditprocedures", "challenges", "concerns", "curves",
    "datasources", "datasets", "descriptors", "documentation", "evaluations", "families", "hazards", "histories",
    "inferenceservices", "inferencesessions", "measurements", "methods", "models", "modules", "pipelines",
    "pipelineruns", "quotas", "reports", "revisions", "safetycases", "scores", "submissions", "tasks", "teams",
    "usecases", "chores/validate-schema", "*",
]  # fmt: skip


class AccessGrant(SchemaModel):
    """Permission to call functions of resources, of accounts' entities and of single entities. Grants add up."""

    resources: list[APIResource] = Field(min_length=1, max_length=100)
    """Resources that the grant covers, such as datasets; `*` for all."""
    functions: list[APIFunction] = Field(min_length=1, max_length=100)
    """Functions that the grant covers, such as create; `*` for all."""
    accounts: Annotated[list[Word], MANY] = Field(default_factory=list)
    """Accounts whose entities the grant covers; `*` for all."""
    entities: Annotated[list[Word], MANY] = Field(default_factory=list)
    """Ids of single entities that the grant covers; `*` for all."""


class APIKey(SchemaModel):
    """A key of an account, as it is shown: `secret` is never set in an answer."""

    grants: list[AccessGrant] = Field(default_factory=list)
    """Grants of the key."""
    id: str
    """Id of the key, `jti` of its token."""
    subject: str
    """`accounts/<id>` of an account, `inferencesessions/<id>` of a session's token."""
    created: Time
    """Time at which the key was made."""
    expires: Time
    """Time at which the key expires."""
    secret: str | None = None
    """Field of the published schema; never set."""
    permissionsVersion: str | None = None
    """The account's permissionsVersion at the time at which the key was made."""


class Identity(SchemaModel):
    """The account's identities at other services."""

    google: Word | None = None
    """Identity at Google."""
    github: Word | None = None
    """Identity at GitHub."""
    gitlab: Word | None = None
    """Identity at GitLab."""
    authentik: Word | None = None
    """Identity at Authentik."""


class AccountAuthConfig(SchemaModel):
    """Permissions of an account: the most that its keys may be granted."""

    permissions: list[AccessGrant] = Field(default_factory=list)
    """Grants that keys of the account may have at most."""
    permissionsVersion: str = NULL_ID
    """Version of the permissions, which changes with every change of them."""


class Account(SchemaModel):
    """An account, which owns entities."""

    creationTime: Time | None = None
    """Time at which the account was created."""
    lastTransitionTime: Time | None = None
    """Time at which the status last changed."""
    status: str = "Active"
    """Active, Suspended or Deleted."""
    reason: str | None = None
    """Reason of the status in one word: SuspendCommand, ReactivateCommand or DeleteCommand."""
    message: str | None = None
    """Reason of the status in a sentence."""
    name: str
    """Name of the account, which no other account has."""
    identity: Identity = Field(default_factory=Identity)
    """The account's identities at other services."""
    apiKeys: list[APIKey] = Field(default_factory=list)
    """Keys of the account."""
    auth: AccountAuthConfig = Field(default_factory=AccountAuthConfig)
    """Permissions of the account."""
    # Left out where there are none: the published Account, which is read strictly in places, has no such field.
    labels: Annotated[dict[LabelKey, Word], FEW] = Field(
        default_factory=dict, exclude_if=lambda labels: not labels
    )
    """Labels: key and value pairs in the syntax of Kubernetes labels. Absent if there are none."""
    id: str | None = None
    """Id of the account."""


@dataclass(frozen=True)
class Scope:
    """Entities that a caller may see: those of `accounts`, and single ones; `*` for all."""

    accounts: frozenset[str]
    entities: frozenset[str]

    @property
    def everything(self) -> bool:
        return "*" in self.accounts or "*" in self.entities

    def covers(self, account: str, entity: str) -> bool:
        return self.everything or account in self.accounts or entity in self.entities
