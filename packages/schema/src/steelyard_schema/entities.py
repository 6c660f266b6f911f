"""All kinds of entities that the platform stores, and how one is parsed."""

from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from steelyard_schema.quota import Quota, StoredQuota
from steelyard_schema.revisable import AnyRevisable
from steelyard_schema.revision import History, Revision

AnyEntity = AnyRevisable | History | Revision
"""Entities that CreateEntity creates."""
Entity = Annotated[AnyEntity, Field(discriminator="kind")]
AnyStored = AnyEntity | StoredQuota
"""Entities and quotas: all that log and view keep by id."""

ENTITIES: dict[str, type[AnyEntity]] = {kind.__name__: kind for kind in get_args(AnyEntity)}
"""Classes of entities by kind."""

STORED: dict[str, type[AnyStored]] = {**ENTITIES, "Quota": StoredQuota}
"""Classes of everything that is kept, by kind."""

_IRREGULAR = {"Family": "families", "History": "histories", "OCIArtifact": "artifacts"}
PLURALS: dict[str, str] = {
    kind: _IRREGULAR.get(kind, f"{kind.lower()}s") for kind in (*ENTITIES, Quota.__name__)
}
"""Names of routes and collections by kind."""

_ADAPTER: TypeAdapter[AnyEntity] = TypeAdapter(Entity, config=ConfigDict(defer_build=True))
_STORED_ADAPTER: TypeAdapter[AnyStored] = TypeAdapter(
    Annotated[AnyStored, Field(discriminator="kind")], config=ConfigDict(defer_build=True)
)


def kind_of_fault(error: ValidationError) -> type[AnyStored] | None:
    """Return the class that `parse_entity` or `parse_stored` has tried: its name stands first in the paths of faults.

    None where no kind was recognised.
    """
    path = error.errors(include_url=False, include_input=False)[0]["loc"]
    return STORED.get(str(path[0])) if path else None


def parse_entity(value: bytes | str | dict[str, Any]) -> AnyEntity:
    """Return the entity of a JSON text or its values, by its `kind`. Raises pydantic.ValidationError."""
    if isinstance(value, dict):
        return _ADAPTER.validate_python(value)
    return _ADAPTER.validate_json(value)


def parse_stored(value: bytes | dict[str, Any]) -> AnyStored:
    """Return the entity or quota of a JSON text or its values. Raises pydantic.ValidationError."""
    if isinstance(value, dict):
        return _STORED_ADAPTER.validate_python(value)
    return _STORED_ADAPTER.validate_json(value)
