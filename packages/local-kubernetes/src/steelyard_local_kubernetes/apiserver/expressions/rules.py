"""All rules of one schema, and an object against them: each rule at its field, each item compared with its old form."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from steelyard_common.types import Json, mapping, sequence
from steelyard_local_kubernetes.apiserver.errors import Cause
from steelyard_local_kubernetes.apiserver.expressions.rule import ABSENT, Change, Rule, compile_rule
from steelyard_local_kubernetes.apiserver.expressions.values import item_key, with_root_fields

UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to "
)
UNCHECKED += "complete validation"
_BLOCKING = {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany"}
_BLOCKING |= {"FieldValueTypeInvalid"}


@dataclass
class SchemaRules:
    """A schema with rules, or with some below; without any it is not kept."""

    schema: Json
    rules: list[Rule] = field(default_factory=list)
    properties: "dict[str, SchemaRules]" = field(default_factory=dict)
    items: "SchemaRules | None" = None
    values: "SchemaRules | None" = None


def compile_rules(schema: Json, *, root: bool = True) -> SchemaRules | None:
    """Raises BadExpression; None for a schema without rules."""
    result = SchemaRules(with_root_fields(schema) if root else schema)
    result.rules = [compile_rule(validation) for validation in sequence(schema, "x-kubernetes-validations")]
    for name, property_schema in mapping(schema, "properties").items():
        # Kubernetes ignores what a definition says of the metadata at its root:
        # the server's own schema is the one that counts.
        if (not root or name != "metadata") and (below := compile_rules(property_schema, root=False)):
            result.properties[name] = below
    if isinstance(items := schema.get("items"), dict):
        result.items = compile_rules(items, root=False)
    if isinstance(extra := schema.get("additionalProperties"), dict):
        result.values = compile_rules(extra, root=False)
    return result if result.rules or result.properties or result.items or result.values else None


def rule_causes(rules: SchemaRules | None, obj: Json, old: Json | None, causes: list[Cause]) -> list[Cause]:
    """Return the causes of broken rules, unless `causes` of the schema already prevent their evaluation."""
    if rules is None:
        return []
    # Values of other types than the schema's would make rules fail for reasons that are none of theirs.
    if any(cause.reason in _BLOCKING for cause in causes):
        return [Cause("<nil>", f"Invalid value: null: {UNCHECKED}")]
    return list(_causes(rules, obj, ABSENT if old is None else old, ""))


def _causes(node: SchemaRules, value: Any, old: Any, path: str) -> Iterator[Cause]:
    if value is None:
        return
    old = ABSENT if old is None else old
    change = Change(node.schema, value, old)
    for rule in node.rules:
        if cause := rule.cause(change, path):
            yield cause
    if isinstance(value, dict):
        yield from _field_causes(node, value, old if isinstance(old, dict) else {}, path)
    elif isinstance(value, list) and node.items is not None:
        before = _items_before(node.schema, value, old)
        for index, item in enumerate(value):
            yield from _causes(node.items, item, before[index], f"{path}[{index}]")


def _field_causes(node: SchemaRules, value: Json, old: Json, path: str) -> Iterator[Cause]:
    for name, below in node.properties.items():
        if name in value:
            where = f"{path}.{name}".removeprefix(".")
            yield from _causes(below, value[name], old.get(name, ABSENT), where)
    if node.values is not None:
        for name, member in value.items():
            yield from _causes(node.values, member, old.get(name, ABSENT), f"{path}[{name}]")


def _items_before(schema: Json, value: list[Any], old: Any) -> list[Any]:
    """Return for each item of a list map the old item with the same keys; items of other lists have no past."""
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return [ABSENT] * len(value)
    before = {repr(item_key(schema, item)): item for item in reversed(old)}
    return [before.get(repr(item_key(schema, item)), ABSENT) for item in value]
