"""From a create request to entities: what all kinds share. Each noun's module holds what is special about its own."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from steelyard.api.http.context import Call
from steelyard.api.http.errors import Invalid
from steelyard.schema.base import DyffEntity, SchemaModel
from steelyard.schema.entities import AnyEntity

E = TypeVar("E", bound=DyffEntity)


@dataclass(frozen=True)
class Base:
    """What the platform says about a new entity; `more` is what only an administrator may say."""

    id: str
    account: str
    now: datetime
    more: dict[str, object] = field(default_factory=dict)

    def entity(self, kind: type[E], content: SchemaModel | dict[str, Any], status: str = "Created") -> E:
        """The entity of the request's fields. Raises pydantic.ValidationError, whose errors name them."""
        fields = content if isinstance(content, dict) else content.dump()
        said = {"id": self.id, "account": self.account, "creationTime": self.now, "status": status}
        return kind.model_validate({**fields, **self.more, **said})


def check_replicas(call: Call, replicas: int, field: str) -> None:
    """Raises Invalid for more replicas than the platform's settings let one session have."""
    most = call.api.platform.settings.session_replicas
    if replicas > most:
        raise Invalid(
            f"{field}: {replicas} should be at most {most}, which the setting api.session_replicas allows one session",
            field=field,
        )


Build = Callable[[Call, Any, Base], Awaitable[Sequence[AnyEntity]]]
"""The new entity, then others that are created with it. Raises ApiError, naming the request's field."""
