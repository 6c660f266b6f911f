"""Rules of grants, as the published schema has them. Pure.

A grant speaks of resources, functions, accounts and entities. `*` allows anything; `*` asked for is allowed by `*`
alone. It holds for the entities of its accounts and for its single entities; one that names neither holds for nothing.
Grants add up. The API asks at every request, and `tokens.py` for what a token and its account have in common.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from steelyard_schema.account import AccessGrant, APIFunction, APIResource, Scope

T = TypeVar("T", bound=str)


def allows(
    grants: Sequence[AccessGrant], resource: APIResource, function: APIFunction, account: str, entity: str
) -> bool:
    """Return whether the function of the resource may be called for an entity of an account."""
    return scope(grants, resource, function).covers(account, entity)


def scope(grants: Sequence[AccessGrant], resource: APIResource, function: APIFunction) -> Scope:
    """The accounts and entities for which the function of the resource may be called."""
    usable = [
        grant for grant in grants if _has(grant.resources, resource) and _has(grant.functions, function)
    ]
    accounts = frozenset(account for grant in usable for account in grant.accounts)
    entities = frozenset(entity for grant in usable for entity in grant.entities)
    return Scope(accounts, entities)


def covers(permissions: Sequence[AccessGrant], requested: Sequence[AccessGrant]) -> bool:
    """Return whether the permissions, taken together, allow all that the requested grants would.

    Each function of each resource is looked at by itself: one permission may allow one of them, one the other.
    """
    return all(_covered(permissions, request) for request in requested)


def _covered(permissions: Sequence[AccessGrant], request: AccessGrant) -> bool:
    for resource in request.resources:
        for function in request.functions:
            usable = [
                permission
                for permission in permissions
                if _has(permission.resources, resource) and _has(permission.functions, function)
            ]
            accounts = [account for grant in usable for account in grant.accounts]
            entities = [entity for grant in usable for entity in grant.entities]
            named = all(_has(accounts, account) for account in request.accounts) and all(
                _has(entities, entity) for entity in request.entities
            )
            if not usable or not named:
                return False
    return True


def common(grants: Sequence[AccessGrant], permissions: Sequence[AccessGrant]) -> list[AccessGrant]:
    """Return what both grants allow by name: accounts that both name, and entities that both name.

    A single entity of one side that lies in an account of the other is left out: a grant says nothing of whose entity
    it is. So it may be less than both allow, never more; and a grant that `covers` has let pass is common whole.
    """
    return [allowed for grant in grants for permission in permissions for allowed in _both(grant, permission)]


def _both(grant: AccessGrant, permission: AccessGrant) -> Iterator[AccessGrant]:
    resources = _common(grant.resources, permission.resources)
    functions = _common(grant.functions, permission.functions)
    accounts = _common(grant.accounts, permission.accounts)
    entities = _common(grant.entities, permission.entities)
    if resources and functions and (accounts or entities):
        yield AccessGrant(resources=resources, functions=functions, accounts=accounts, entities=entities)


def _common(left: Sequence[T], right: Sequence[T]) -> list[T]:
    if "*" in left:
        return list(right)
    return list(left) if "*" in right else [name for name in left if name in right]


def _has(allowed: Sequence[str], name: str) -> bool:
    return "*" in allowed or name in allowed
