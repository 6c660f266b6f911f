"""Parts from which the definitions of this package are made: nodes of structural schemas, columns, versions."""

from collections.abc import Sequence
from typing import Any

from steelyard_common.types import Json

EMBEDDED = "steelyard/embedded"
"""Annotation of definitions that are an embedded form of another project's; without it a definition is not ours."""

STRING: Json = {"type": "string"}
BOOLEAN: Json = {"type": "boolean"}
INT32: Json = {"type": "integer", "format": "int32"}
INT64: Json = {"type": "integer", "format": "int64"}
TIME: Json = {"type": "string", "format": "date-time"}
QUANTITY: Json = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""An object of another kind's fields, such as a Pod's template, which is kept as it is."""


def obj(required: Sequence[str] = (), /, **properties: Json) -> Json:
    """Return an object of known fields."""
    node: Json = {"type": "object", "properties": properties}
    return {**node, "required": list(required)} if required else node


def array(items: Json, *keys: str) -> Json:
    """Return a list; with keys, a list of items that these fields distinguish."""
    node: Json = {"type": "array", "items": items}
    if keys:
        node |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return node


def map_schema(value: Json) -> Json:
    return {"type": "object", "additionalProperties": value}


def enum_schema(*values: str, **more: Any) -> Json:
    return {"type": "string", "enum": list(values), **more}


def integer(minimum: int | None = None, **more: Any) -> Json:
    node = {**INT32, **more}
    return node if minimum is None else {**node, "minimum": minimum}


CONDITION = obj(
    ("type", "status"),
    type=STRING,
    status=enum_schema("True", "False", "Unknown"),
    reason=STRING,
    message=STRING,
    lastTransitionTime=TIME,
    observedGeneration=INT64,
)
CONDITIONS = array(CONDITION, "type")
CREATED = ".metadata.creationTimestamp"


def column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> Json:
    """Return a column of `kubectl get`; a wide one is shown with `-o wide` only."""
    content: Json = {"name": name, "jsonPath": path, "type": kind}
    return {**content, "priority": 1} if wide else content


def age() -> Json:
    return column("Age", CREATED, "date")


def is_true(condition: str) -> str:
    """Return the path of a condition's status."""
    return f'.status.conditions[?(@.type=="{condition}")].status'


def version(
    name: str, schema: Json, columns: Sequence[Json], *, stored: bool = True, status: bool = True
) -> Json:
    content: Json = {"name": name, "served": True, "storage": stored}
    if status:
        content["subresources"] = {"status": {}}
    return {**content, "additionalPrinterColumns": list(columns), "schema": {"openAPIV3Schema": schema}}


def kind_schema(description: str, required: Sequence[str] = (), /, **properties: Json) -> Json:
    """Return the schema of a kind: what every object has, and these fields."""
    head = {"apiVersion": STRING, "kind": STRING, "metadata": {"type": "object"}}
    return {**obj(required, **head, **properties), "description": description}


def definition(
    group: str, kind: str, names: Json, versions: Sequence[Json], *, namespaced: bool = True
) -> Json:
    """Return a CustomResourceDefinition. `names` has the plural, and short names and categories if there are any."""
    lower = kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}", "annotations": {EMBEDDED: "true"}},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "singular": lower, **names},
            "versions": list(versions),
        },
    }
