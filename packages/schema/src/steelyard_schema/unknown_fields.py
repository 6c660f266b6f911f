"""The schema of a Pod's template as Kubernetes 1.34 publishes it, and fields of objects that a schema does not know.

Definitions, clients and the operator use it: what Kubernetes would drop from a template in silence is refused by all of
them. A definition cannot refer to another kind's schema, so that each holds the whole template, without descriptions.
"""

import difflib
import gzip
import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from steelyard_common.types import Json, mapping

FILE = "pod_template.json.gz"
_PRESERVED = "x-kubernetes-preserve-unknown-fields"


class UnknownField(NamedTuple):
    """A field that a schema does not know: its path, and what may be there."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@cache
def pod_template_schema() -> Json:
    """Return the structural schema of a PodTemplateSpec, which callers leave as it is.

    Contract: the file is made of the published schema by `tests/kubernetes_api/generate_builtin.py`.
    """
    packed = files("steelyard_schema").joinpath(FILE).read_bytes()
    schema: Json = json.loads(gzip.decompress(packed))
    return schema


def complete(node: Json, published: Json) -> None:
    """Add to a schema what it lacks of a published one, in place; unknown fields are then no longer kept."""
    node.pop(_PRESERVED, None)
    for name, field in published.get("properties", {}).items():
        own = node.setdefault("properties", {}).setdefault(name, field)
        if own is not field:
            complete(own, field)
    if required := sorted({*node.get("required", ()), *published.get("required", ())}):
        node["required"] = required
    for word in ("items", "additionalProperties"):
        if word in published and word in node:
            complete(node[word], published[word])


def unknown_fields(schema: Json, value: object, path: str) -> Iterator[UnknownField]:
    """Yield the fields of a value that its schema does not know; names that begin with $ are directives of a patch."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(schema.get("items", {_PRESERVED: True}), item, f"{path}[{index}]")
    elif isinstance(value, dict) and _knows_fields(schema):
        known: Json = schema.get("properties", {})
        for name, member in value.items():
            below = known.get(name, schema.get("additionalProperties"))
            where = f"{path}.{name}" if path else str(name)
            if isinstance(below, dict):
                yield from unknown_fields(below, member, where)
            elif not str(name).startswith("$"):
                yield UnknownField(where, f"there is no such field; {_hint(str(name), known)}")


def unknown_pod_fields(value: object, path: str = "") -> Iterator[UnknownField]:
    """Yield the fields that Pods do not have, in each Pod and template of a Pod that an object of any kind holds."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_pod_fields(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        if (value.get("apiVersion"), value.get("kind")) == ("v1", "Pod"):
            known = {**pod_template_schema()["properties"], "apiVersion": {}, "kind": {}, "status": {}}
            yield from unknown_fields({"properties": known}, value, path)
            return
        for name, member in value.items():
            where = f"{path}.{name}" if path else str(name)
            if _is_template(str(name), member):
                yield from unknown_fields(pod_template_schema(), member, where)
            else:
                yield from unknown_pod_fields(member, where)


def _knows_fields(schema: Json) -> bool:
    has_fields = "properties" in schema or isinstance(schema.get("additionalProperties"), dict)
    return has_fields and not schema.get(_PRESERVED)


def _is_template(name: str, value: object) -> bool:
    """Return whether a field is the template of a Pod, and neither that of a Job nor a whole object."""
    if not name.lower().endswith("template") or not isinstance(value, dict) or "kind" in value:
        return False
    return isinstance(value.get("spec"), dict) and "containers" in mapping(value, "spec")


def _hint(name: str, known: Json) -> str:
    lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), lower, 1)
    return f"did you mean {lower[near[0]]}?" if near else f"there are {', '.join(sorted(known))}"
