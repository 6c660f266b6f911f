"""Kinds that are served, and the rules of each. These are the built-in kinds; `custom.py` makes the others."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.errors import Cause
from steelyard_local_kubernetes.apiserver.schema import Node

Check = Callable[[Json, Json | None], list[Cause]]
Warn = Callable[[Json, Json | None], list[str]]


def set_no_defaults(obj: Json) -> None:
    """The default of kinds without defaults."""


def keep_nothing(obj: Json, old: Json) -> None:
    """The rule of kinds whose status a client may write whole."""


def no_causes(obj: Json, old: Json | None) -> list[Cause]:
    return []


def carry_nothing(old: Json, new: Json) -> None:
    return None


def no_warnings(obj: Json, old: Json | None) -> list[str]:
    return []


@dataclass(frozen=True)
class Rules:
    """Functions that complete and check the objects of a kind."""

    prepare: Callable[[Json], None] = set_no_defaults  # a new object: what clients may not set
    default: Callable[[Json], None] = set_no_defaults  # every write: what clients may leave out
    check: Check = no_causes  # new and, in an update, old
    trim: Callable[[Json], None] = (
        set_no_defaults  # after the check: what a refusal shows empty, and no object
    )
    status_check: Check = no_causes
    keep_status: Callable[[Json, Json], None] = keep_nothing  # what a write of the status may not change
    warn: Warn = no_warnings  # what is taken, and will not do what its author thinks
    carry: Callable[[Json, Json], None] = carry_nothing  # an update, old and new: what stays, and what goes


@dataclass(frozen=True)
class ScalePaths:
    """Paths at which a kind keeps the desired and the current number of replicas, and their selector."""

    replicas: tuple[str, ...]
    current: tuple[str, ...]
    selector: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ResourceType:
    """One kind in one version, as clients name it."""

    group: str
    version: str
    plural: str
    kind: str
    node: Callable[[], Node]
    rules: Rules = Rules()
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = True  # the status subresource
    has_generation: bool = True
    unconditional: bool = True  # replaced without a version too
    name_check: str = "subdomain"
    selectable: frozenset[str] = frozenset()
    custom: bool = False
    keeps_metadata: bool = False  # a write of the status changes no labels, annotations and finalizers
    new_check: Check = no_causes  # of new objects in this very version, besides the rules of all versions
    deprecation: str = ""  # the warning of every answer, if there is one
    schema: Json = field(default_factory=dict)  # of custom kinds
    columns: tuple[Json, ...] = ()  # of custom kinds
    stored_as: "ResourceType | None" = None  # where another form is stored than served
    subresources: tuple[str, ...] = ()  # besides `status`
    returned: bool = False  # a deletion answers with the object, also when it is gone at once
    scaling: ScalePaths | None = None  # with the subresource `scale`
    convert_in: Callable[[Json], Json] | None = None  # to the form that is stored
    convert_out: Callable[[Json], Json] | None = None

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_version(self) -> str:
        return f"apis/{self.api_version}" if self.group else f"api/{self.version}"

    @property
    def bucket(self) -> str:
        if self.stored_as:
            return self.stored_as.bucket
        # Without the version: all versions of a kind are the same objects.
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage_version(self) -> "ResourceType":
        return self.stored_as or self

    @property
    def list_name(self) -> str:
        return self.list_kind or f"{self.kind}List"

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()


def find_field(obj: Any, *path: str) -> Any:
    """The value at a path of keys; None where the path ends early."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj
