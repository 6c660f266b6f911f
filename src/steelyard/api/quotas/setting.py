"""Handler that sets a quota. There is one of each principal, resource and flavor, whose limit changes."""

import re

from starlette.responses import Response

from steelyard.accounts.quota_settings import ADMITTED, GLOBAL, LONGEST
from steelyard.accounts.set_quotas import CREATED, find_created_kinds
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Forbidden, Invalid
from steelyard.api.http.responses import json_response
from steelyard.api.quotas.usage import with_usage
from steelyard_schema.commands import PutQuota
from steelyard_schema.entities import PLURALS
from steelyard_schema.kubernetes import ACCELERATOR_PATTERN, LABEL_VALUE_PATTERN
from steelyard_schema.quota import SYSTEM, Quota
from steelyard_schema.requests import QuotaCreateRequest
from steelyard_schema.status import CREATIONS_COUNTED

_ACCOUNT = re.compile(LABEL_VALUE_PATTERN)
_ACCELERATOR = re.compile(ACCELERATOR_PATTERN)
_HELD = ("cpu", "memory", ADMITTED)
"""Resources that workflows hold, besides accelerators."""
_DYFF = "dyff.io"


async def put(context: RequestContext) -> Response:
    """The quota as it is now. It counts once the orchestrator has read it; admitted entities go on."""
    request = await context.body(QuotaCreateRequest)
    _check(request)
    if not context.access.allows("quotas", "create", SYSTEM, request.key):
        raise Forbidden(f"the token lacks quotas/create for account {SYSTEM!r}, which owns quotas")
    fields = request.dump() | {"id": request.key, "status": "Ready"}
    quota = Quota.parse({**fields, "creationTime": context.now, "lastTransitionTime": context.now})
    command = PutQuota(data=quota)
    json = await context.api.commands.edit(command, context.command_origin(), context.now)
    return json_response((await with_usage(context, [json]))[0])


def _check(request: QuotaCreateRequest) -> None:
    """Raise Invalid for a quota that would never count."""
    whose, _, account = request.principal.partition("/")
    if request.principal != GLOBAL and (whose != "accounts" or not _ACCOUNT.fullmatch(account)):
        raise Invalid(
            f"principal: {request.principal!r} should be {GLOBAL} or accounts/<account>", field="principal"
        )
    if request.duration and request.duration > LONGEST:
        raise Invalid(
            f"duration: {request.duration} should be at most {LONGEST.days} days: older admissions are not remembered",
            field="duration",
        )
    if not request.resource.endswith(CREATED):
        _check_held(request.resource)
        return
    if not find_created_kinds(request.resource):
        plurals = sorted(PLURALS[kind] for kind in CREATIONS_COUNTED)
        raise Invalid(
            f"resource: {request.resource!r} is not counted; creations are counted of {', '.join(plurals)}, as "
            f"{plurals[0]}{CREATED}, and of all of them as workflows{CREATED}",
            field="resource",
        )
    if not request.duration:
        raise Invalid(
            f"duration: is missing (--within on the command line); {request.resource} is counted within a time, by the "
            "flavor Rate",
            field="duration",
        )


def _check_held(resource: str) -> None:
    """Raise Invalid for a name that no workflow can hold any of."""
    domain, slash, _ = resource.partition("/")
    # As Kubernetes names what devices offer: a name without a domain is a typing error, such as cpuu.
    is_accelerator = slash and "." in domain and _ACCELERATOR.fullmatch(resource)
    if resource in _HELD or (is_accelerator and not f".{domain}".endswith(f".{_DYFF}")):
        return
    raise Invalid(
        f"resource: {resource!r} is not counted; there are {', '.join(_HELD)}, creations such as evaluations{CREATED}, "
        "and types of accelerators, with their domain, such as nvidia.com/gpu-t4",
        field="resource",
    )
