"""Requests from the schema's types, beyond its bounds: numbers too large, texts of strange characters, sizes at limits.

A request is made along its model's JSON Schema. Most values are fit, so that many requests are accepted; here and there
one is wild. `Fuzz(random, ids)` draws all chance from its argument: a seed gives the same requests again.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random

from pydantic import BaseModel

from steelyard_common.types import JsonValue
from steelyard_schema.bounds import ENTITY_BYTES, INT32, INT64
from steelyard_schema.conftest import IMAGE

FIT: dict[str, list[str]] = {
    "account": ["acme", "umbrella"],
    "capacity": ["1Gi", "0", "8191Pi"],
    "cpu": ["100m", "2", "1e3"],
    "memory": ["1Gi", "512M", "9223372036854775807"],
    "storage": ["1Gi", "0"],
    "digest": ["sha256:" + "0" * 64],
    "host": ["registry.example:5000"],
    "name": ["digits", "a-name", "MODEL_ID"],
    "hardwareTypes": ["nvidia.com/gpu-t4", "amd.com"],
    "md5": [base64.b64encode(b"0" * 16).decode()],
    "mountPath": ["/data", "/data/more", "/a b/ä"],
    "path": ["a.parquet", "b/c", "b", "b/c/d", "ä"],
    "url": ["https://example.org/x"],
    "expires": ["2040-01-01T00:00:00Z", "8999-12-31T23:59:59+01:00"],
    "key": ["a", "example.com/a"],
    "arrowSchema": ["AAAA"],
    "source": ["7002", "org-rows"],
    "imagePull": ["org-rows"],
    "provider": ["org-rows", "7002"],
}
TEXTS = [
    "", "\x00", "a\x00b", "\ud800", "\udfff\ud800", "\x1b[31m", "\u202e", "𝄞" * 300, "ä" * 256, " ", "\n", "../../x",
    "/", ".", ".steelyard/manifest.json", ".dyff/x", "1e999", "-1", "1e-999", "9" * 25, "NaN",
    "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59",
    "10000-01-01T00:00:00Z", "${x}", "{limit.x}", "%s%n", "' OR 1=1 --", "kubernetes.io/x",
    "x" * 70_000, "x" * 140_000,
]  # fmt: skip
NUMBERS: list[JsonValue] = [
    -1, 0, 1, 1000, 1001, INT32, INT32 + 1, INT64, INT64 + 1, -INT64 - 1, -INT64 - 2, 2**64, 10**25, "9" * 25,
    "9" * 5000, "1e3", True, False, 1.5, 1e300, float("inf"), float("nan"), "", "0x10", "１", [1], None,
]  # fmt: skip
_OFTEN = ("artifacts", "runner", "inferenceSession")
DEPTHS = [63, 64, 65, 95, 96, 97, 99, 100, 101, 150, 198, 200, 250, 254, 255, 500, 900]
SIZES = range(ENTITY_BYTES - 1200, ENTITY_BYTES + 40)


def _choose_session(model: str, body: JsonValue) -> None:
    """An evaluation has a session of its own, or one that runs."""
    if model == "EvaluationCreateRequest":
        own = body.setdefault("inferenceSession", None)
        body["inferenceSessionReference"] = None if own else body.get("inferenceSessionReference")


def _choose_origin(model: str, body: JsonValue) -> None:
    """A dataset is made of files with a schema, or of a data source; a data source of files, or of a place."""
    if model == "DatasetOfSourceCreateRequest" and body.get("artifacts"):
        body.pop("dataSource", None)
        body.pop("files", None)
        body.setdefault("schema", {"arrowSchema": "AAAA"})
    # A data source is fetched from a place, or made of files.
    if model == "DataSourceCreateRequest":
        uploaded = body.get("sourceKind") == "upload"
        for field in ("source", "files", "secrets") if uploaded else ("artifacts",):
            body.pop(field, None)


def nested(depth: int, list_: bool) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value] if list_ else {"a": value}
    return value


@cache
def schema_of(model: type[BaseModel]) -> JsonValue:
    """Return the JSON Schema of a model, made once: that takes longer than the request itself."""
    return model.model_json_schema(by_alias=True)


@dataclass
class Fuzz:
    """`ids` are entities that requests may name, by the field."""

    random: Random
    ids: Mapping[str, str]
    wild: float = 0.0

    def request(self, model: type[BaseModel]) -> bytes:
        """The body of a request."""
        self.wild = self.random.choice([0, 0, 0.01, 0.02, 0.1, 0.5])
        schema = schema_of(model)
        body = self._object(schema, schema.get("$defs", {}))
        _choose_session(model.__name__, body)
        _choose_origin(model.__name__, body)
        if self.random.random() < 0.05 and "schema" in body and isinstance(body["schema"], dict):
            body["schema"]["arrowSchema"] = ""
            body["schema"]["arrowSchema"] = "A" * (self.random.choice(SIZES) - len(json.dumps(body)))
        return json.dumps(body).encode()

    def text(self) -> str:
        return self.random.choice([*TEXTS, "fit", "fit"])

    def number(self) -> JsonValue:
        return self.random.choice(NUMBERS)

    def anything(self) -> JsonValue:
        return self.random.choice([self.text(), self.number(), self.free_form(), None, [], {}])

    def free_form(self) -> JsonValue:
        match self.random.randrange(4):
            case 0:
                return nested(self.random.choice(DEPTHS), list_=False)
            case 1:
                return {"a": nested(self.random.choice(DEPTHS), list_=True)}
            case 2:
                return {self.text(): self.number()}
        return {str(number): number for number in range(self.random.choice([0, 10, 10_000, 10_001]))}

    def _value(  # noqa: PLR0911 - one case per word of JSON Schema
        self, node: JsonValue, definitions: JsonValue, name: str
    ) -> JsonValue:
        if "$ref" in node:
            node = {**definitions[node["$ref"].rpartition("/")[2]], **node}
        if self.random.random() < self.wild:
            return self._wild(node)
        if choices := node.get("anyOf") or node.get("oneOf"):
            some = [choice for choice in choices if choice.get("type") != "null"]
            return self._value(self.random.choice([*some * 4, *choices]), definitions, name)
        if "enum" in node or "const" in node:
            return self.random.choice(node.get("enum", [node.get("const")]))
        match node.get("type"):
            case "object" if "properties" in node:
                return self._object(node, definitions)
            case "object" if "x-max-depth" in node:
                return {"type": "object"}
            case "object":
                keys = self.random.sample(["a", "b", "example.com/c"], k=self.random.randrange(3))
                return {key: self._value(node["additionalProperties"], definitions, "") for key in keys}
            case "array":
                least = node.get("minItems", 0)
                return [
                    self._value(node["items"], definitions, name)
                    for _ in range(self.random.randint(least, 2))
                ]
            case "integer":
                return self.random.randint(1, 3)
            case "boolean":
                return self.random.choice([True, False])
            case "null":
                return None
        return self._fit(name, node)

    def _fit(self, name: str, node: JsonValue) -> JsonValue:
        if name in self.ids:
            return self.ids[name]
        if node.get("format") == "date-time":
            return self.random.choice(FIT["expires"])
        return self.random.choice(FIT.get(name, ["abc", "x.y"]))

    def _object(self, node: JsonValue, definitions: JsonValue) -> JsonValue:
        required = set(node.get("required", []))
        made = {
            name: self._value(child, definitions, name)
            for name, child in node["properties"].items()
            if name in required or name in _OFTEN or self.random.random() < 0.4
        }
        if self.random.random() < self.wild / 10:
            made[self.text()] = self.anything()
        if {"image", "imageRef"} <= node["properties"].keys():  # a runner: the platform keeps no images
            made = {"image": IMAGE, **made, "imageRef": None}
        if "mountPath" in made:  # the field of its kind
            made.pop("data", None)
            if self.random.random() < 0.5:
                source = {"kind": "Dataset", "id": self.ids["dataset"]}
                made |= {"kind": "Data", "data": {"source": source}}
                made.pop("scratch", None)
            else:
                made = {"scratch": {"capacity": "1Gi"}, **made, "kind": "Scratch"}
        return made

    def _wild(self, node: JsonValue) -> JsonValue:
        """A value of the node's type beyond its bounds, or of another type."""
        if self.random.random() < 0.2:
            return self.anything()
        choices = [node, *(node.get("anyOf") or ())]
        kinds = {choice.get("type") for choice in choices}
        if "integer" in kinds:
            return self.random.choice([*NUMBERS, *(choice.get("maximum", 0) + 1 for choice in choices)])
        if "string" in kinds:
            most = max(choice.get("maxLength", 0) for choice in choices)
            return self.random.choice([*TEXTS, "x" * most, "x" * (most + 1)])
        if "object" in kinds:
            return self.free_form()
        return self.anything()
