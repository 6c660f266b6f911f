"""The built-in kinds' schemas, as Kubernetes 1.34 publishes them (`builtin.json.gz`), read when first asked for.

The field tables stay in memory, the descriptions do not: `openapi.py` reads the file again for each document.
"""

import gzip
import re
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from steelyard_common.types import Json, sequence
from steelyard_local_kubernetes.apiserver.gotypes import go_name, hold, struct_name
from steelyard_local_kubernetes.apiserver.schema import Node, fill

_FILE = Path(__file__).with_name("builtin.json.gz")
_REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_nodes: dict[str, Node] = {}


def read_schemas() -> Json:
    schemas: Json = orjson.loads(gzip.decompress(_FILE.read_bytes()))
    return schemas


@cache
def _names() -> dict[tuple[str, str, str], str]:
    """Schema names by group, version and kind."""
    return dict(_index()[0])


@cache
def _index() -> tuple[tuple[tuple[tuple[str, str, str], str], ...], dict[str, Json]]:
    schemas = {name: _without_descriptions(schema) for name, schema in read_schemas().items()}
    merged = []
    for name, schema in schemas.items():
        for gvk in sequence(schema, "x-kubernetes-group-version-kind"):
            merged.append(((gvk["group"], gvk["version"], gvk["kind"]), name))
    return tuple(merged), schemas


def schema_name(group: str, version: str, kind: str) -> str:
    return _names()[(group, version, kind)]


def is_published(group: str, version: str, kind: str) -> bool:
    return (group, version, kind) in _names()


def schema_node(name: str) -> Node:
    """The compiled schema of this name; schemas may refer to themselves."""
    node = _nodes.get(name)
    if node is None:
        # Entered before it is filled: a schema that refers to itself finds this very node.
        node = _nodes[name] = Node()
        node.go, node.struct = go_name(name), struct_name(name)
        fill(node, _index()[1][name], schema_node)
        hold(node, name)
        # Its published schema is that of an IntOrString: only the name says that a
        # number may have a fraction, and a text a unit.
        if name.endswith(".resource.Quantity"):
            node.type = "quantity"
        elif ".JSONSchemaPropsOr" in name:
            node.part = schema_node(name.partition("Or")[0])
    return node


def kind_node(group: str, version: str, kind: str) -> Node:
    return schema_node(schema_name(group, version, kind))


def metadata_node() -> Node:
    return schema_node(f"{META}ObjectMeta")


def closure(schemas: Json, roots: list[str]) -> Json:
    """The named schemas and all that they refer to."""
    schema: Json = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in schema:
            schema[name] = schemas[name]
            waiting += _REFERENCE.findall(orjson.dumps(schemas[name]).decode())
    return schema


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_descriptions(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_descriptions(child)
        for key, child in value.items()
        if not (key == "description" and isinstance(child, str))
    }
