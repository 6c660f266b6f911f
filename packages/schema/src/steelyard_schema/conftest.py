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

from steelyard_common.types import Json, JsonValue
from steelyard_schema.base import LAST_TIME
from steelyard_schema.quota import quota_id

HEX = st.uuids(version=4).map(lambda id: id.hex)
WORD = st.text("abcdefghij", min_size=1, max_size=8)
IMAGE = {"host": "registry.example", "name": "a/b", "digest": "sha256:" + "0" * 64}
_IDS = (
    *("analysis", "assessment", "challenge", "dataset", "entity", "evaluation", "family", "historyOf", "id"),
    *(
        "inferenceService",
        "inferenceSessionReference",
        "method",
        "model",
        "modules",
        "notebookModule",
        "pipeline",
    ),
    *("pipelineRun", "previousRevision", "resubmissionOf", "revisionOf", "task", "team"),
)
# As the published schema's own package writes it: every other form would come back as this one.
ADDRESS = {
    "street_address": "Straat 1",
    "country_code": "NL",
    "city": "AMSTERDAM",
    "postal_code": "1012 AB",
    "formatted": "Straat 1\n1012 AB AMSTERDAM\nNETHERLANDS",
}
LAST = LAST_TIME.replace(tzinfo=None) - timedelta(seconds=1)
BASE64 = st.binary(max_size=16).map(lambda content: base64.b64encode(content).decode())
SPECIAL: dict[str, st.SearchStrategy[str]] = {
    "capacity": st.just("1Gi"),
    "cpu": st.just("100m"),
    "country_code": st.just("NL"),
    "digest": st.just("sha256:" + "0" * 64),
    "email": st.just("someone@example.org"),
    "format": st.sampled_from(["{quantity:.2f}", "{quantity:.0f} {unit}", "about {quantity}"]),
    "host": st.just("registry.example"),
    "md5": st.binary(min_size=16, max_size=16).map(lambda digest: base64.b64encode(digest).decode()),
    "limit": st.sampled_from(["0", "12", "1Gi"]),
    "memory": st.just("1Gi"),
    "mountPath": st.just("/data"),
    "storage": st.just("1Gi"),
    "usage": st.just("3"),
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
    if "anyOf" in node or "oneOf" in node:
        return st.one_of(*(_from(choice, definitions, name) for choice in node.get("anyOf") or node["oneOf"]))
    if "const" in node or "enum" in node:
        return st.sampled_from(node.get("enum", [node.get("const")]))
    if name in SPECIAL and node.get("type") == "string":
        return SPECIAL[name]
    if "A-Za-z0-9+/" in node.get("pattern", ""):
        return BASE64
    match node.get("type"):
        case "object" if "properties" in node:
            # A kind is always written: it decides between the models of a union.
            required = {*node.get("required", []), *({"kind"} & node["properties"].keys())}
            fields = {key: _from(value, definitions, key) for key, value in node["properties"].items()}
            return st.fixed_dictionaries(
                {key: value for key, value in fields.items() if key in required},
                optional={key: value for key, value in fields.items() if key not in required},
            )
        case "object":
            patterns = list(node.get("patternProperties", {}).values())  # of keys that have a pattern
            inner = patterns[0] if patterns else node.get("additionalProperties")
            values = _from(inner, definitions, "") if isinstance(inner, dict) and inner else WORD
            return st.dictionaries(WORD, values, min_size=node.get("minProperties", 0), max_size=2)
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
        case "string" if node.get("format") == "duration":
            return st.sampled_from(["PT10M", "P1D", "PT1.5S"])
    return WORD


def consistent(value: JsonValue) -> JsonValue:
    """The value, and everything within it, with fields that go together."""
    if isinstance(value, list):
        return [consistent(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: consistent(item) for key, item in value.items()}
    for settle in (_files, _mount, _scores, _pipeline, _quota, _schedule):
        settle(value)
    return ADDRESS if "street_address" in value else value


def _files(value: Json) -> None:
    """One image at most, and distinct paths in each list of files."""
    for name in ("artifacts", "files"):
        if isinstance(value.get(name), list):
            value[name] = list({file["path"]: file for file in value[name]}.values())
    if value.get("image"):
        value.pop("imageRef", None)


def _mount(value: Json) -> None:
    """The field of a mount's kind."""
    if "mountPath" in value:
        kind, other = ("data", "scratch") if value.get("data") else ("scratch", "data")
        value[kind] = value.get(kind) or {"capacity": "1Gi"}
        value["kind"] = kind.title()
        value.pop(other, None)


def _scores(value: Json) -> None:
    """One primary score, a range in its order, and points of all dimensions of a curve."""
    if isinstance(value.get("scores"), list):
        numbers = [score for score in value["scores"] if "dimensions" not in score]
        for place, score in enumerate(numbers):
            score["priority"] = "secondary" if place else "primary"
    ends = [value[end] for end in ("minimum", "maximum") if value.get(end) is not None]
    if len(ends) == 2:
        value["minimum"], value["maximum"] = sorted(ends)
    if "points" in value and "dimensions" in value:
        value["points"] = {name: [0.5] for name in (*value["dimensions"], "x")}


def _pipeline(value: Json) -> None:
    """Nodes and parameters under their names, and one session of an evaluation."""
    if "nodes" in value and "name" in value:
        for name, node in value["nodes"].items():
            node["name"] = name
            request = node["request"]
            if "method" in request:
                request.setdefault("kind", "PipelineMeasurementRequest")
            else:
                request["kind"] = "PipelineEvaluationRequest"
                request["inferenceSession"] = request.get("inferenceSession") or {"inferenceService": "$(it)"}
                request.pop("inferenceSessionReference", None)
        for name, parameter in (value.get("parameters") or {}).items():
            parameter["keyword"] = name


def _quota(value: Json) -> None:
    """The fields of a quota's flavor, and its id."""
    if "principal" in value and value["flavor"] in ("Rate", "Total"):
        if value["flavor"] == "Total":
            value.pop("duration", None)
            value.pop("epoch", None)
        else:
            value["duration"] = value.get("duration") or "PT10M"
        if "id" in value:
            value["id"] = quota_id(value["principal"], value["resource"], value["flavor"])


def _schedule(value: Json) -> None:
    """A closing time only where there is no opening time that it could be before."""
    if value.get("openingTime"):
        value.pop("closingTime", None)


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
