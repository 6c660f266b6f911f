"""Fills in `${…}` in the environment of a framework that is data: who a replica is, and where the others are."""

import json
import re
from collections.abc import Callable, Collection

from steelyard.operator.training.frameworks.framework import Placement
from steelyard.operator.training.model import Invalid
from steelyard.schema.training.templates import OF_A_REPLICA, OF_A_ROLE, THERE_ARE

_PART = re.compile(r"\$\$\{|\$\{([^}]*)\}?")


def fill(text: str, at: Placement, known: Collection[str], field: str) -> str:
    """`text` for one replica. `known` are the framework's roles; Invalid, with `field`, for a name that is none."""

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return "${"
        if not found[0].endswith("}"):
            raise Invalid(field, f"{found[0]} has no closing brace; there are {THERE_ARE}")
        return str(_value(found[1], at, known, field))

    return _PART.sub(value, text)


def rank(at: Placement) -> int:
    """Among all replicas, in the order of the roles."""
    before = 0
    for role in at.job.roles.values():
        if role.name == at.place.role:
            return before + at.place.index
        before += role.count
    raise KeyError(at.place.role)


def _value(name: str, at: Placement, known: Collection[str], field: str) -> object:
    if name in _OWN:
        return _OWN[name](at)
    role, *rest = name.split(".")
    if role not in known or not _is_of_role(rest):
        raise Invalid(field, f"${{{name}}} is not known; there are {THERE_ARE}; roles are {', '.join(known)}")
    if len(rest) == 1:
        return _of_role(role, rest[0], at)
    index = int(rest[0])
    if index >= at.count(role):
        raise Invalid(field, f"${{{name}}} is not there: the job has {at.count(role)} replicas of {role}")
    host, port = at.host(role, index), at.port(role, index)
    return {"host": host, "port": port, "address": f"{host}:{port}"}[rest[1]]


def _is_of_role(rest: list[str]) -> bool:
    match rest:
        case [what]:
            return what in OF_A_ROLE
        case [index, what]:
            return index.isdecimal() and what in OF_A_REPLICA
        case _:
            return False


def _of_role(role: str, what: str, at: Placement) -> object:
    match what:
        case "count":
            return at.count(role)
        case "hosts":
            return ",".join(at.hosts(role))
        case _:
            return ",".join(at.addresses(role))


def _cluster(at: Placement) -> str:
    return json.dumps({role: at.addresses(role) for role in at.job.roles}, separators=(",", ":"))


_OWN: dict[str, Callable[[Placement], object]] = {
    "job.name": lambda at: at.job.name,
    "job.namespace": lambda at: at.job.namespace,
    "role": lambda at: at.place.role,
    "index": lambda at: at.place.index,
    "rank": rank,
    "world.size": lambda at: at.job.total,
    "port": lambda at: at.port(at.place.role, at.place.index),
    "host": lambda at: at.host(at.place.role, at.place.index),
    "cluster.json": _cluster,
}
