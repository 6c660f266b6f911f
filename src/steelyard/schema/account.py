"""Accounts, their API keys, and what a key may do."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from steelyard.schema.base import SchemaModel, Time
from steelyard.schema.bounds import MANY, Word
from steelyard.schema.ids import NULL_ID

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
    """Lets its holder call functions of resources, of accounts' entities and of single entities; grants add up."""

    resources: list[APIResource] = Field(min_length=1, max_length=100)
    """Resources, such as datasets; `*` is any."""
    functions: list[APIFunction] = Field(min_length=1, max_length=100)
    """Functions, such as create; `*` is any."""
    accounts: Annotated[list[Word], MANY] = Field(default_factory=list)
    """Accounts whose entities it covers; `*` is any."""
    entities: Annotated[list[Word], MANY] = Field(default_factory=list)
    """Ids of single entities that it covers; `*` is any."""


class APIKey(SchemaModel):
    """A key, as it is shown: `secret` is never set in an answer."""

    grants: list[AccessGrant] = Field(default_factory=list)
    """What it may do."""
    id: str
    """Id of the key, `jti` of its token."""
    subject: str
    """`accounts/<id>` of an account, `inferencesessions/<id>` of a session's token."""
    created: Time
    """When it was made."""
    expires: Time
    """When it ends."""
    secret: str | None = None
    """Kept for the published schema; never set."""
    permissionsVersion: str | None = None
    """The account's permissionsVersion when it was made."""


class Identity(SchemaModel):
    """Who the account is elsewhere."""

    google: Word | None = None
    """At Google."""
    github: Word | None = None
    """At GitHub."""
    gitlab: Word | None = None
    """At GitLab."""
    authentik: Word | None = None
    """At Authentik."""


class AccountAuthConfig(SchemaModel):
    """What keys of the account may be given at most."""

    permissions: list[AccessGrant] = Field(default_factory=list)
    """Grants."""
    permissionsVersion: str = NULL_ID
    """Changes with every change of the permissions."""


class Account(SchemaModel):
    """Somebody who owns entities."""

    creationTime: Time | None = None
    """When it was made."""
    lastTransitionTime: Time | None = None
    """When its status last changed."""
    status: str = "Active"
    """Active, Suspended or Deleted."""
    reason: str | None = None
    """SuspendCommand, ReactivateCommand or DeleteCommand."""
    message: str | None = None
    """The same in a sentence."""
    name: str
    """Its name, which no other account has."""
    identity: Identity = Field(default_factory=Identity)
    """Who it is elsewhere."""
    apiKeys: list[APIKey] = Field(default_factory=list)
    """Its keys."""
    auth: AccountAuthConfig = Field(default_factory=AccountAuthConfig)
    """What its keys may be given."""
    id: str | None = None
    """Its id."""


@dataclass(frozen=True)
class Scope:
    """Which entities somebody may see: those of `accounts`, and single ones; `*` is any."""

    accounts: frozenset[str]
    entities: frozenset[str]

    @property
    def everything(self) -> bool:
        return "*" in self.accounts or "*" in self.entities

    def covers(self, account: str, entity: str) -> bool:
        return self.everything or account in self.accounts or entity in self.entities
