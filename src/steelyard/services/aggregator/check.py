"""Preconditions of commands. A command that does not meet them is `Rejected`, and the entity stays as it is."""

from collections.abc import Mapping

from steelyard.services.status_commands import NAMESPACE
from steelyard_common.types import Json, mapping
from steelyard_schema.base import DyffEntity
from steelyard_schema.commands import ForgetEntity, RestoreEntity
from steelyard_schema.entities import parse_entity
from steelyard_schema.names import account_namespace
from steelyard_schema.status import statuses

_CHANGING = frozenset({"status", "reason", "message", "lastTransitionTime", "labels", "metadata"})
"""Fields that may change during an entity's life; all others are fixed at its creation."""
_CHANGING_OF = {
    "Challenge": frozenset({"content", "rules", "tasks"}),
    "Family": frozenset({"members"}),
    "Team": frozenset({"name", "members", "affiliations"}),
}
"""Fields of single kinds that may change, too."""


class Rejected(Exception):
    """The command does not apply: `reason` is one word for programs, `message` a sentence for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def check_same_entity(kind: str, headers: Mapping[str, str], content: Json) -> None:
    """Raise Rejected if the entity has another revision than `If-Match` names, or another kind than the command."""
    expected = headers.get("if-match", "").strip('"')
    revision = find_revision(content)
    if expected and expected not in ("*", revision):
        raise Rejected("Conflict", f"If-Match: the revision is {revision}, not {expected}")
    if kind != content["kind"]:
        raise Rejected("Conflict", f"kind: is {content['kind']}, not {kind}")


def check_own_resource(headers: Mapping[str, str], content: Json) -> None:
    """Raise Rejected if the status is that of a resource outside of the namespace of the entity's account.

    Who may write in another namespace can make a resource there with the label and the name of any entity.
    """
    namespace, own = headers.get(NAMESPACE), account_namespace(str(content["account"]))
    if namespace is not None and namespace != own:
        raise Rejected("Conflict", f"namespace: the resource is in {namespace}, the entity's in {own}")


def check_restorable(command: RestoreEntity, content: Json) -> None:
    """Raise Rejected unless the entity is Deleted, of the expected revision, and the one that the command restores."""
    attributes, revision = command.data.attributes, find_revision(content)
    expected = attributes.ifRevisionMatch
    if expected is not None and expected != revision:
        raise Rejected("Conflict", f"ifRevisionMatch: the revision is {revision}, not {expected}")
    if attributes.ifRevisionUndefined and revision is not None:
        raise Rejected("Conflict", f"ifRevisionUndefined: the revision is {revision}")
    if content["status"] != "Deleted":
        raise Rejected("Conflict", f"status: is {content['status']}; only what is Deleted is restored")
    if differing := differing_field(attributes.entity, content):
        raise Rejected("Conflict", f"entity.{differing}: is that of another entity")
    living = [status for status in statuses(content["kind"]) if status != "Deleted"]
    if (status := attributes.entity.status) not in living:
        raise Rejected("Invalid", f"entity.status: is {status}; should be one of {', '.join(living)}")


def check_forgettable(command: ForgetEntity, content: Json) -> None:
    """Raise Rejected unless the entity is Deleted, and still as it was when the command was given."""
    # The reaper decides from a state that it has read; a user may have restored the entity since then.
    status, revision = command.data.expectedStatus, command.data.expectedRevision
    if status is not None and status != content["status"]:
        raise Rejected("Conflict", f"expectedStatus: the status is {content['status']}, not {status}")
    if revision is not None and revision != find_revision(content):
        raise Rejected(
            "Conflict", f"expectedRevision: the revision is {find_revision(content)}, not {revision}"
        )
    if content["status"] != "Deleted":
        raise Rejected("Conflict", f"status: is {content['status']}; only what is Deleted is forgotten")


def check_editable(content: Json) -> None:
    """Raise Rejected for an entity that is Deleted."""
    if content["status"] == "Deleted":
        raise Rejected("Conflict", f"{content['id']} is Deleted, and is not edited")


def differing_field(entity: DyffEntity, content: Json) -> str | None:
    """Return a fixed field in which the entity differs from the one of this content; None if there is none."""
    # The content is parsed again, since an older program may have left out fields that have defaults.
    new, old = entity.dump(), parse_entity(content).dump()
    fixed = sorted((new.keys() | old.keys()) - _CHANGING - _CHANGING_OF.get(content["kind"], frozenset()))
    return next((name for name in fixed if new.get(name) != old.get(name)), None)


def find_revision(content: Json) -> str | None:
    """Return the id of the command that changed the entity last."""
    revision: str | None = mapping(content, "metadata").get("revision")
    return revision
