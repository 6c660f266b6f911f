"""Ours against the published schema, in both directions, on random instances."""

import json
import warnings
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from steelyard.schema.audit import Audit, AuditProcedure
from steelyard.schema.base import SchemaModel
from steelyard.schema.dataset import Dataset
from steelyard.schema.evaluation import Evaluation
from steelyard.schema.inference_service import InferenceService
from steelyard.schema.inference_session import InferenceSession
from steelyard.schema.model import Model
from steelyard.schema.report import Report

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dyff.schema import platform

OURS: tuple[type[SchemaModel], ...] = (
    Audit,
    AuditProcedure,
    Dataset,
    Evaluation,
    InferenceService,
    InferenceSession,
    Model,
    Report,
)
HEX = st.text("0123456789abcdef", min_size=32, max_size=32)
WORD = st.text("abcdefghij", min_size=1, max_size=8)
SPECIAL = {
    "digest": st.just("sha256:" + "0" * 64),
    "host": st.just("registry.example"),
    "url": st.just("https://example.org/x"),
    "mountPath": st.just("/data"),
    "workingDir": st.just("/data"),
    "memory": st.just("1Gi"),
    "storage": st.just("1Gi"),
    "cpu": st.just("100m"),
    "capacity": st.just("1Gi"),
}


@cache
def instances(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    """JSON that the model takes, from its own JSON Schema; the unions of kinds are then made consistent."""
    schema = model.model_json_schema(by_alias=True)
    return st.builds(consistent, _from(schema, schema.get("$defs", {}), ""))


def _from(  # noqa: C901, PLR0911 - one case per word of JSON Schema
    node: dict[str, Any], definitions: dict[str, Any], name: str
) -> st.SearchStrategy[Any]:
    if "$ref" in node:
        return _from(definitions[node["$ref"].rpartition("/")[2]], definitions, name)
    if name in SPECIAL and node.get("type") == "string":
        return SPECIAL[name]
    if "anyOf" in node or "oneOf" in node:
        return st.one_of(*(_from(each, definitions, name) for each in node.get("anyOf") or node["oneOf"]))
    if "const" in node or "enum" in node:
        return st.sampled_from(node.get("enum", [node.get("const")]))
    match node.get("type"):
        case "object" if "properties" in node:
            required = set(node.get("required", []))
            each = {key: _from(value, definitions, key) for key, value in node["properties"].items()}
            return st.fixed_dictionaries(
                {key: value for key, value in each.items() if key in required},
                optional={key: value for key, value in each.items() if key not in required},
            )
        case "object":
            inner = node.get("additionalProperties")
            values = _from(inner, definitions, "") if isinstance(inner, dict) and inner else WORD
            return st.dictionaries(WORD, values, max_size=2)
        case "array":
            return st.lists(
                _from(node["items"], definitions, ""), min_size=node.get("minItems", 0), max_size=2
            )
        case "integer":
            return st.integers(1, 1000)
        case "number":
            return st.floats(0, 1)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "string" if node.get("format") == "date-time":
            return st.datetimes().map(lambda when: when.isoformat() + "Z")
    return HEX if name in {"id"} else WORD


def consistent(value: Any) -> Any:
    """What JSON Schema cannot say: one image at most, and the field of a mount's kind."""
    if isinstance(value, list):
        return [consistent(each) for each in value]
    if not isinstance(value, dict):
        return value
    value = {key: consistent(each) for key, each in value.items()}
    if value.get("image"):
        value.pop("imageRef", None)
    if "mountPath" in value:
        kind, other = ("data", "scratch") if value.get("data") else ("scratch", "data")
        value[kind] = value.get(kind) or {"capacity": "1Gi"}
        value["kind"] = kind.title()
        value.pop(other, None)
    return value


def published(ours: type[SchemaModel]) -> type[BaseModel]:
    return getattr(platform, ours.__name__)  # type: ignore[no-any-return]


def dumped(model: BaseModel) -> Any:
    return json.loads(model.model_dump_json(by_alias=True, exclude_none=True))


quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("ours", OURS, ids=lambda kind: str(kind.__name__))
@quick
@given(data=st.data())
def test_theirs_parses_in_ours_and_comes_back(ours: type[SchemaModel], data: st.DataObject) -> None:
    theirs = published(ours)
    first = dumped(theirs.model_validate(data.draw(instances(theirs))))
    back = ours.parse(first)
    assert dumped(theirs.model_validate(back.dump())) == first


@pytest.mark.parametrize("ours", OURS, ids=lambda kind: str(kind.__name__))
@quick
@given(data=st.data())
def test_ours_parses_in_theirs_and_comes_back(ours: type[SchemaModel], data: st.DataObject) -> None:
    first = ours.parse(data.draw(instances(ours))).dump()
    back = published(ours).model_validate(first)
    assert ours.parse(dumped(back)).dump() == first
