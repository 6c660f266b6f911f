"""Makes entities of create requests: the part that all kinds share. Each noun's `creation.py` has the rest."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Invalid
from steelyard_schema.base import DyffEntity, SchemaModel
from steelyard_schema.entities import AnyEntity

E = TypeVar("E", bound=DyffEntity)


@dataclass(frozen=True)
class NewEntity:
    """Fields of a new entity that the platform sets."""

    id: str
    account: str
    now: datetime
    privileged: dict[str, object] = field(default_factory=dict)
    """Fields of the request that only an administrator may set."""
    references: Sequence[dict[str, str]] = ()
    """Annotations that name the secrets of the request."""

    def entity(self, kind: type[E], content: SchemaModel | dict[str, Any], status: str = "Created") -> E:
        """Return an entity with the request's fields. Raises pydantic.ValidationError, whose errors name them."""
        fields = content if isinstance(content, dict) else content.dump()
        if self.references:
            fields = {**fields, "annotations": [*fields.get("annotations", ()), *self.references]}
        own = {"id": self.id, "account": self.account, "creationTime": self.now, "status": status}
        return kind.model_validate({**fields, **self.privileged, **own})


def check_replicas(context: RequestContext, replicas: int, field: str) -> None:
    """Raise Invalid for more replicas than the settings let one session have."""
    most = context.api.platform.settings.session_replicas
    if replicas > most:
        raise Invalid(
            f"{field}: {replicas} should be at most {most}, which the setting api.session_replicas allows a session",
            field=field,
        )


Build = Callable[[RequestContext, Any, NewEntity], Awaitable[Sequence[AnyEntity]]]
"""Makes the entity of a request, and others that are created with it. Raises ApiError, which names the field."""
