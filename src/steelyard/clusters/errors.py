"""Errors of the cluster client: one class for each thing that a caller can do something about.

Every refusal of an API server becomes one of these, with the refusal as its cause; none is printed, none is left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from steelyard_common.errors import SteelyardError, UsageError


class ClusterError(SteelyardError):
    """Base class of all errors of the cluster client."""


class NotConfigured(ClusterError, UsageError):
    """The client does not know which cluster to ask, or how to log in; the message says what is missing."""

    exit_code = 2


@dataclass(frozen=True)
class Fault:
    """One fault of a configuration: the path of the field, and what is wrong with its value."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class BadConfig(ClusterError, UsageError, ValueError):
    """A configuration that Kubernetes would refuse; nothing was sent. `faults` has all of them."""

    exit_code = 2

    def __init__(self, what: str, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        lines = [str(fault) for fault in self.faults]
        start = f"{what}: " if what else ""
        super().__init__(f"{start}{lines[0]}" if len(lines) == 1 else "\n  ".join([f"{what}:", *lines]))


class Unreachable(ClusterError):
    """The cluster does not answer. Whether it has carried out the request is not known."""


class Unsupported(ClusterError):
    """The cluster cannot do this: the kind, or the version of it, is not installed there."""


class Refused(ClusterError):
    """The API server refused. `status` is HTTP's, `reason` the API's word; `faults` names the fields."""

    def __init__(self, message: str, status: int = 0, reason: str = "", faults: Iterable[Fault] = ()) -> None:
        super().__init__(message)
        self.status, self.reason, self.faults = status, reason, tuple(faults)


class NotFound(Refused):
    """404: there is no such object, or no such namespace."""


class AlreadyExists(Refused):
    """409: an object of this name is there."""


class Conflict(Refused):
    """409: the object was changed meanwhile, or its fields belong to another manager, which the message names."""


class Invalid(Refused):
    """400, 422: the API server does not take the object."""


class Unauthenticated(Refused):
    """401: the login is missing, has ended, or does not count here."""


class TooManyRequests(Refused):
    """429: the API server asks to wait."""


class Unavailable(Refused):
    """5xx: the API server, or a webhook behind it, cannot do this now."""


@dataclass(frozen=True)
class Right:
    """A right of RBAC, as a Role grants it."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" in namespace {self.namespace}" if self.namespace else "")

    @property
    def rule(self) -> dict[str, list[str]]:
        """The rule to add to a Role or a ClusterRole."""
        return {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]}


class Forbidden(Refused):
    """403: the account may not do this. `right` is what it lacks; None where a rule other than RBAC refused."""

    def __init__(self, message: str, right: Right | None, reason: str = "Forbidden") -> None:
        super().__init__(message, 403, reason)
        self.right = right


class Failed(ClusterError):
    """Something that was waited for has failed; `status` is its last state."""

    def __init__(self, message: str, status: Any) -> None:
        super().__init__(message)
        self.status = status


class WaitTimeout(ClusterError, TimeoutError):
    """The time of a wait is over; the message names the awaited state, `status` is the last state."""

    def __init__(self, message: str, status: Any) -> None:
        super().__init__(message)
        self.status = status
