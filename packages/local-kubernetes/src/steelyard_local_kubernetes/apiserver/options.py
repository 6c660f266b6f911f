"""Options of a write and of a deletion: what a request says in addition to its object."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.access.users import SERVER, User
from steelyard_local_kubernetes.apiserver.answers import Answers
from steelyard_local_kubernetes.apiserver.kinds import ResourceType


@dataclass
class Options:
    """Options of a write; warnings are collected for its answer."""

    dry_run: bool = False
    validation: Literal["Strict", "Warn", "Ignore"] = "Warn"
    warnings: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)  # of the body, as strict decoding names them
    user: User = SERVER
    manager: str = ""  # of the fields that the write changes
    named: bool = False  # the request names the manager
    api_version: str = ""  # of the request, where it is not the stored one
    applied: bool = False  # the object's managed fields are those of an apply
    part: str = ""  # the subresource by which the whole object is written
    kind: str = "CreateOptions"  # and further fields as sent, for those who are asked about the write
    sent: Json = field(default_factory=dict)
    requested: ResourceType | None = None  # the kind in the version of the request
    collection: bool = False  # one of many objects is deleted: the request names none
    answers: Answers | None = None  # of webhooks; the server's own writes ask none

    def keep(self, name: str, make: Callable[[], str]) -> str:
        """Return a value that is the same in all attempts at one request."""
        return self.answers.keep(name, make) if self.answers is not None else make()


@dataclass(frozen=True)
class Deletion:
    """Options of a deletion."""

    grace: int | None = None
    propagation: str = ""
    uid: str = ""
    version: str = ""
    cascades: bool = False  # says by the oldest of its fields that dependents go, too
