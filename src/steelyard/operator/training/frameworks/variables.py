"""Fills in `${…}` in the environment of a framework that is data: who a replica is, and where the others are."""

import json
import re
from collections.abc import Callable, Collection

from steelyard.operator.training.frameworks.framework import Placement
from steelyard.operator.training.model import Invalid
from steelyard_schema.training.templates import OF_A_REPLICA, OF_A_ROLE, THERE_ARE

_PART = re.compile(r"\$\$\{|\$\{([^}]*)\}?")


def fill(text: str, placement: Placement, known: Collection[str], field: str) -> str:
    """`text` for one replica. `known` are the framework's roles; Invalid, with `field`, for a name that is not one of
    them."""

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return "${"
        if not match[0].endswith("}"):
            raise Invalid(field, f"{match[0]} has no closing brace; there are {THERE_ARE}")
        return str(_value(match[1], placement, known, field))

    return _PART.sub(value, text)


def rank(placement: Placement) -> int:
    """Return the number of a replica among all replicas, in the order of the roles."""
    before = 0
    for role in placement.job.roles.values():
        if role.name == placement.replica_id.role:
            return before + placement.replica_id.index
        before += role.count
    raise KeyError(placement.replica_id.role)


def _value(name: str, placement: Placement, known: Collection[str], field: str) -> object:
    if name in _OWN:
        return _OWN[name](placement)
    role, *rest = name.split(".")
    if role not in known or not _is_of_role(rest):
        raise Invalid(field, f"${{{name}}} is not known; there are {THERE_ARE}; roles are {', '.join(known)}")
    if len(rest) == 1:
        return _resolve_for_role(role, rest[0], placement)
    index = int(rest[0])
    if index >= placement.count(role):
        raise Invalid(
            field, f"${{{name}}} is not there: the job has {placement.count(role)} replicas of {role}"
        )
    host, port = placement.host(role, index), placement.port(role, index)
    return {"host": host, "port": port, "address": f"{host}:{port}"}[rest[1]]


def _is_of_role(rest: list[str]) -> bool:
    match rest:
        case [what]:
            return what in OF_A_ROLE
        case [index, what]:
            return index.isdecimal() and what in OF_A_REPLICA
        case _:
            return False


def _resolve_for_role(role: str, what: str, placement: Placement) -> object:
    match what:
        case "count":
            return placement.count(role)
        case "hosts":
            return ",".join(placement.hosts(role))
        case _:
            return ",".join(placement.addresses(role))


def _cluster(placement: Placement) -> str:
    return json.dumps(
        {role: placement.addresses(role) for role in placement.job.roles}, separators=(",", ":")
    )


_OWN: dict[str, Callable[[Placement], object]] = {
    "job.name": lambda placement: placement.job.name,
    "job.namespace": lambda placement: placement.job.namespace,
    "role": lambda placement: placement.replica_id.role,
    "index": lambda placement: placement.replica_id.index,
    "rank": rank,
    "world.size": lambda placement: placement.job.total,
    "port": lambda placement: placement.port(placement.replica_id.role, placement.replica_id.index),
    "host": lambda placement: placement.host(placement.replica_id.role, placement.replica_id.index),
    "cluster.json": _cluster,
}
