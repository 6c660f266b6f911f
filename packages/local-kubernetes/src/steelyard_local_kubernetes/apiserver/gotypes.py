"""Go types of the fields of built-in kinds, as a real server's code holds them (`gotypes.json.gz`).

It decides what the published schemas do not say: the words of a refusal, and which empty fields are written.
"""

import gzip
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from steelyard_local_kubernetes.apiserver.schema import Node

_FILE = Path(__file__).with_name("gotypes.json.gz")
# Fields behind feature gates that are off in this version: a real server reads them and drops them.
_GATED = {
    "Container": {"restartPolicyRules"},
    "LeaseSpec": {"strategy", "preferredHolder"},
    "NodeSpec": {"configSource"},
    "PodSpec": {"hostnameOverride"},
}
# Fields that a refusal shows as they were sent, an empty list or map where it was one and null where there was none.
_KEPT = {
    "CustomResourceDefinitionSpec": {"versions"},
    "HPAScalingRules": {"policies"},
    "PodFailurePolicyOnExitCodesRequirement": {"values"},
}
_KEPT_OF_TEMPLATES = frozenset({"labels"})
_ZERO = {"string": "", "integer": 0, "number": 0, "boolean": False, "quantity": "0", "int-or-string": 0}


@cache
def _types() -> dict[str, dict[str, str]]:
    types: dict[str, dict[str, str]] = orjson.loads(gzip.decompress(_FILE.read_bytes()))
    return types


def go_name(schema: str) -> str:
    """A type as Go prints it: `v1.PodSpec` of `io.k8s.api.core.v1.PodSpec`."""
    return ".".join(schema.rsplit(".", 2)[1:])


def struct_name(schema: str) -> str:
    """The name of a structure; empty for any other type."""
    return schema.rpartition(".")[2] if schema in _types() else ""


def hold(node: Node, schema: str) -> None:
    """Set what Go says of the fields of a structure; nodes that others refer to have their names already."""
    fields = _types().get(schema)
    if fields is None or node.properties is None:
        return
    left_out, written = set(), {}
    for name, below in node.properties.items():
        kind = fields.get(name, "?")
        mark, kind = (kind[0], kind[1:]) if kind[:1] in ("?", "~") else ("", kind)
        pointer, kind = kind.startswith("*"), kind.removeprefix("*")
        _name_types(below, kind)
        is_list = below.type == "array" or is_map(below)
        is_struct = bool(below.struct) or (below.type == "time" and not pointer)
        if mark == "?" and not is_struct and (is_list or not pointer):
            left_out.add(name)
        elif not mark or (mark == "?" and is_struct and not pointer):
            written[name] = None if pointer or is_list else zero(below)
    node.left_out, node.written = frozenset(left_out), written
    node.gated, node.kept = (frozenset(fields.get(node.struct, ())) for fields in (_GATED, _KEPT))
    if node.struct == "PodTemplateSpec":
        # A node of its own: the metadata of the object itself is never shown so.
        node.properties["metadata"] = replace(node.properties["metadata"], kept=_KEPT_OF_TEMPLATES)


def _name_types(node: Node, name: str) -> None:
    """The type of a field that is not a structure, and of its elements."""
    if node.struct or node.go:
        return
    node.go = name
    if node.items is not None and name.startswith("[]"):
        _name_types(node.items, name[2:])
    elif node.values is not None and name.startswith("map["):
        _name_types(node.values, name.partition("]")[2])


def is_map(node: Node) -> bool:
    return node.values is not None and not node.properties


def zero(node: Node) -> Any:
    """A new empty value of the type, as Go writes it."""
    return {} if node.struct and node.type == "object" else _ZERO.get(node.type)
