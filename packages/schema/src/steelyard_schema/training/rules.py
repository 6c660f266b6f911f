"""CEL rules for jobs of `kubeflow.org/v1` when they are applied: names, types, counts and containers.

Replica types are known in any case (`WORKER`), as v1 takes them. The operator checks all of it again, for API servers
that do not evaluate CEL.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Rule = tuple[str, str]

NAME = (
    "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "metadata.name: must be lower-case letters, digits and '-', begin with a letter and not end with '-'",
)


@dataclass(frozen=True)
class Types:
    """Replica types of a kind."""

    field: str
    names: tuple[str, ...]
    container: str = ""
    """Name of the container that every template must have; empty if any will do."""
    required: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    """Replica types that a job has one replica of."""
    at_least_one: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    """Replica types that go by two names: a job has one of them."""


def _is(names: Sequence[str], key: str = "k") -> str:
    return f"{key}.matches('(?i)^({'|'.join(names)})$')"


def replica_type_rules(types: Types) -> list[Rule]:
    """Return the CEL rules for the map of replica types."""
    here = f"spec.{types.field}"
    rules = [(f"self.all(k, {_is(types.names)})", f"{here}: the types are {', '.join(types.names)}")]
    rules += [(f"self.exists(k, {_is([name])})", f"{here}: needs the type {name}") for name in types.required]
    if types.single:
        # Without `replicas`, a type has one.
        one = f"!{_is(types.single)} || !has(self[k].replicas) || self[k].replicas == 1"
        rules.append(
            (f"self.all(k, {one})", f"{here}: {' and '.join(types.single)}: exactly one replica each")
        )
    if types.at_least_one:
        some = f"!{_is(types.at_least_one)} || !has(self[k].replicas) || self[k].replicas >= 1"
        rules.append(
            (f"self.all(k, {some})", f"{here}: {' and '.join(types.at_least_one)}: at least one replica each")
        )
    if types.one_of:
        both = " and ".join(types.one_of)
        exist = " && ".join(f"self.exists(k, {_is([name])})" for name in types.one_of)
        rules.append((f"!({exist})", f"{here}: has both {both}; they are one part by two names"))
    if types.container:
        has_container = f"self[k].template.spec.containers.exists(c, c.name == '{types.container}')"
        rules.append(
            (
                f"self.all(k, {has_container})",
                f"{here}: every template needs a container named {types.container}",
            )
        )
    return rules


def name_rules(field: str, unnumbered: Sequence[str] = ()) -> list[Rule]:
    """Return the CEL rule that the longest Pod name `<job>-<type>-<index>` is a DNS label."""
    replicas = f"self.spec.{field}"
    # The digits of the highest index.
    number = f"size(string((has({replicas}[k].replicas) ? {replicas}[k].replicas : 1) - 1)) + 1"
    if unnumbered:
        number = f"({_is(unnumbered)} ? 0 : {number})"
    return [
        NAME,
        (
            f"{replicas}.all(k, size(self.metadata.name) + size(k) + 1 + {number} <= 63)",
            "metadata.name: too long, <name>-<type>-<index> has to fit in 63 characters",
        ),
    ]
