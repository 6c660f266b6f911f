"""The secrets that a create request names: checked, and turned into annotations of the entity."""

from collections.abc import Sequence
from typing import TypeVar

from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Forbidden, Invalid
from steelyard_schema.base import SchemaModel
from steelyard_schema.requests import CreateRequest
from steelyard_schema.secrets import secret_annotations

R = TypeVar("R", bound=CreateRequest)


async def take_secrets(context: RequestContext, request: R) -> tuple[R, Sequence[dict[str, str]]]:
    """Return the request without the secrets that it names, and the annotations that name them.

    Raises Forbidden without accounts/consume, Invalid for a secret that the account has not.
    """
    secrets = getattr(request, "secrets", None)
    if not isinstance(secrets, SchemaModel):
        return request, ()
    names = secrets.dump()
    # A caller who creates an entity decides where its secret is sent; that takes a right of its own.
    if names and not context.access.allows("accounts", "consume", request.account, request.account):
        raise Forbidden(
            f"secrets: the token lacks accounts/consume for account {request.account!r}", field="secrets"
        )
    for purpose, name in names.items():
        if not await context.api.secrets.has(request.account, name):
            field = f"secrets.{purpose}"
            raise Invalid(f"{field}: account {request.account} has no secret {name}", field=field)
    return request.model_copy(update={"secrets": None}), secret_annotations(names)
