"""What grants allow. Pure; the published schema's rules.

A grant speaks of resources, functions, accounts and entities. Each is a set: `*` allows anything; `*` asked for is
allowed by `*` alone; else what is asked for has to be a subset. Grants add up, but never within one question: a single
grant has to allow all of it. A grant that names entities, or accounts, covers those; what neither names covers nothing.
"""

from collections.abc import Sequence

from steelyard.schema.account import AccessGrant, APIFunction, APIResource, Scope


def allows(
    grants: Sequence[AccessGrant], resource: APIResource, function: APIFunction, account: str, entity: str
) -> bool:
    """Whether the function of the resource may be called for an entity of an account."""
    return scope(grants, resource, function).covers(account, entity)


def scope(grants: Sequence[AccessGrant], resource: APIResource, function: APIFunction) -> Scope:
    """The accounts and entities for which the function of the resource may be called."""
    usable = [
        each for each in grants if _within([resource], each.resources) and _within([function], each.functions)
    ]
    accounts = frozenset(account for grant in usable for account in grant.accounts)
    entities = frozenset(entity for grant in usable for entity in grant.entities)
    return Scope(accounts, entities)


def covers(permissions: Sequence[AccessGrant], requested: Sequence[AccessGrant]) -> bool:
    """Whether every requested grant lies within one of the permissions."""
    return all(any(_grant_within(each, permission) for permission in permissions) for each in requested)


def _grant_within(asked: AccessGrant, allowed: AccessGrant) -> bool:
    return (
        _within(asked.resources, allowed.resources)
        and _within(asked.functions, allowed.functions)
        and _within(asked.accounts, allowed.accounts)
        and _within(asked.entities, allowed.entities)
    )


def _within(asked: Sequence[str], allowed: Sequence[str]) -> bool:
    if "*" in allowed:
        return True
    return "*" not in asked and set(asked) <= set(allowed)
