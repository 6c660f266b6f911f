"""Random instances of a model from its own JSON Schema, for tests that hold our schema to the published one.

JSON Schema cannot say everything that a model checks: names stand for syntax (`md5`, ids), and `consistent` settles
what fields have to do with each other.
"""

import base64
from datetime import timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from steelyard.schema.base import LAST_TIME
from steelyard.types import JsonValue

HEX = st.text("0123456789abcdef", min_size=32, max_size=32)
WORD = st.text("abcdefghij", min_size=1, max_size=8)
IMAGE = {"host": "registry.example", "name": "a/b", "digest": "sha256:" + "0" * 64}
_IDS = ("id", "dataset", "evaluation", "inferenceService", "inferenceSessionReference", "model", "modules")
LAST = LAST_TIME.replace(tzinfo=None) - timedelta(seconds=1)
SPECIAL: dict[str, st.SearchStrategy[str]] = {
    "capacity": st.just("1Gi"),
    "cpu": st.just("100m"),
    "digest": st.just("sha256:" + "0" * 64),
    "host": st.just("registry.example"),
    "md5": st.binary(min_size=16, max_size=16).map(lambda digest: base64.b64encode(digest).decode()),
    "memory": st.just("1Gi"),
    "mountPath": st.just("/data"),
    "storage": st.just("1Gi"),
    "url": st.just("https://example.org/x"),
    "workingDir": st.just("/data"),
    **dict.fromkeys(_IDS, HEX),
}


@cache
def instances(model: type[BaseModel], *, request: bool = False) -> st.SearchStrategy[JsonValue]:
    """JSON that the model takes; of requests, what only they demand is there too."""
    schema = model.model_json_schema(by_alias=True)
    drawn = _from(schema, schema.get("$defs", {}), "")
    return st.builds(lambda value: requested(consistent(value)) if request else consistent(value), drawn)


def _from(  # noqa: C901, PLR0911 - one case per word of JSON Schema
    node: dict[str, Any], definitions: dict[str, Any], name: str
) -> st.SearchStrategy[JsonValue]:
    if "$ref" in node:
        return _from(definitions[node["$ref"].rpartition("/")[2]], definitions, name)
    if name in SPECIAL and node.get("type") == "string":
        return SPECIAL[name]
    if "anyOf" in node or "oneOf" in node:
        return st.one_of(*(_from(choice, definitions, name) for choice in node.get("anyOf") or node["oneOf"]))
    if "const" in node or "enum" in node:
        return st.sampled_from(node.get("enum", [node.get("const")]))
    match node.get("type"):
        case "object" if "properties" in node:
            required = set(node.get("required", []))
            fields = {key: _from(value, definitions, key) for key, value in node["properties"].items()}
            return st.fixed_dictionaries(
                {key: value for key, value in fields.items() if key in required},
                optional={key: value for key, value in fields.items() if key not in required},
            )
        case "object":
            inner = node.get("additionalProperties")
            values = _from(inner, definitions, "") if isinstance(inner, dict) and inner else WORD
            return st.dictionaries(WORD, values, max_size=2)
        case "array":
            items = _from(node["items"], definitions, name)
            return st.lists(items, min_size=node.get("minItems", 0), max_size=2)
        case "integer":
            return st.integers(1, 1000)
        case "number":
            return st.floats(0, 1)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "string" if node.get("format") == "date-time":
            return st.datetimes(max_value=LAST).map(lambda when: when.isoformat() + "Z")
    return WORD


def consistent(value: JsonValue) -> JsonValue:
    """The value with at most one image, distinct paths in each list of files, and the field of a mount's kind."""
    if isinstance(value, list):
        return [consistent(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: consistent(item) for key, item in value.items()}
    for name in ("artifacts", "files"):
        if isinstance(value.get(name), list):
            value[name] = list({file["path"]: file for file in value[name]}.values())
    if value.get("image"):
        value.pop("imageRef", None)
    if "mountPath" in value:
        kind, other = ("data", "scratch") if value.get("data") else ("scratch", "data")
        value[kind] = value.get(kind) or {"capacity": "1Gi"}
        value["kind"] = kind.title()
        value.pop(other, None)
    return value


def requested(value: JsonValue) -> JsonValue:
    """The request with an image for its runner, at most one mount, and one session."""
    if "interface" in value:
        runner = value.get("runner") or {"kind": "mock", "resources": {}}
        value["runner"] = (
            runner if runner.get("image") or runner.get("imageRef") else {**runner, "image": IMAGE}
        )
    if "rubric" not in value and "artifacts" not in value and "dataset" in value:
        own = value.get("inferenceSession")
        value["inferenceSessionReference"] = (
            None if own else value.get("inferenceSessionReference") or "0" * 32
        )
    if mounts := (value.get("runner") or {}).get("volumeMounts"):
        value["runner"] = {**value["runner"], "volumeMounts": mounts[:1]}
    return value
