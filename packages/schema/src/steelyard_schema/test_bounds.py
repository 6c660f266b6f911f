"""Bounds: every field of every model has them, a value over its limit is refused, and no text is unwritable."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import orjson
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from steelyard_common.types import Json
from steelyard_schema import requests
from steelyard_schema.bounds import (
    ENTITY_BYTES,
    ENTITY_DEPTH,
    FREE_DEPTH,
    INT32,
    INT64,
    NUMBER,
    Argument,
    Count,
    FreeForm,
    Unkeepable,
    check_json,
    cut,
)
from steelyard_schema.commands import Command, ForgetData, RestoreData, StatusData
from steelyard_schema.curve import Curve
from steelyard_schema.entities import ENTITIES, AnyEntity
from steelyard_schema.inference_service import EnvVar
from steelyard_schema.kubernetes import Quantity
from steelyard_schema.model import AcceleratorGPU
from steelyard_schema.quota import Quota
from steelyard_schema.requests import (
    DatasetCreateRequest,
    EvaluationCreateRequest,
    InferenceSessionCreateRequest,
    ModelCreateRequest,
    Request,
)
from steelyard_schema.resources import RESOURCES
from steelyard_schema.score import Score
from steelyard_schema.stored import entity_json, with_revision
from steelyard_schema.test_requests import A, B, make_request

REQUESTS = [
    model for model in vars(requests).values() if isinstance(model, type) and issubclass(model, Request)
]
OWN = {AnyEntity, StatusData, RestoreData, ForgetData}
"""Data of commands that hold a whole entity, or that only the platform writes: it cuts texts and refuses none."""
MODELS: list[type[BaseModel]] = [
    *REQUESTS,
    *ENTITIES.values(),
    *(kind.spec for kind in RESOURCES.values()),
    *(data for command in get_args(Command) if (data := command.model_fields["data"].annotation) not in OWN),
    Quota,
    Score,
    Curve,
]


def unbounded(node: Json, definitions: Json, path: str) -> Iterator[str]:
    """Places of a JSON Schema where a value of any size would do."""
    if "$ref" in node:
        node = {**definitions[node["$ref"].rpartition("/")[2]], **node}
    if choices := node.get("anyOf") or node.get("oneOf"):
        for choice in choices:
            yield from unbounded(choice, definitions, path)
    elif "enum" not in node and "const" not in node:
        yield from _unbounded_value(node, definitions, path)


def _unbounded_value(node: Json, definitions: Json, path: str) -> Iterator[str]:
    kind = node.get("type", "value")
    missing = [bound for bound in _BOUNDS.get(kind, ["type"]) if bound not in node]
    if kind == "string" and node.get("format") in ("date-time", "duration"):
        missing = []
    if kind == "object" and "properties" in node:
        missing = []
        for name, child in node["properties"].items():
            yield from unbounded(child, definitions, f"{path}.{name}")
    elif kind == "object":
        yield from _unbounded_map(node, definitions, path)
    elif kind == "array":
        yield from unbounded(node["items"], definitions, f"{path}[]")
    yield from (f"{path}: {kind} without {bound}" for bound in missing)


_BOUND = re.compile(r"\{0,[0-9]+\}\$$")
_BOUNDS: dict[str, list[str]] = {
    "string": ["maxLength"],
    "integer": ["minimum", "maximum"],
    "array": ["maxItems"],
    "object": ["maxProperties"],
    "number": [],
    "boolean": [],
    "null": [],
}


def _unbounded_map(node: Json, definitions: Json, path: str) -> Iterator[str]:
    if "x-max-depth" in node:  # free-form JSON: texts and lists in it are bounded by the entity's size
        return
    patterns = node.get("patternProperties", {})
    # A pattern that ends after a number of characters is a bound, too.
    if "maxLength" not in node.get("propertyNames", {}) and not (
        patterns and all(_BOUND.search(pattern) for pattern in patterns)
    ):
        yield f"{path}: keys without maxLength"
    for values in patterns.values() or [node["additionalProperties"]]:
        yield from unbounded(values, definitions, f"{path}{{}}")


@pytest.mark.parametrize("model", MODELS, ids=[model.__name__ for model in MODELS])
def test_every_field_has_a_bound(model: type[BaseModel]) -> None:
    schema = model.model_json_schema(by_alias=True)
    assert list(unbounded(schema, schema.get("$defs", {}), model.__name__)) == []


def plain_numbers(annotation: Any, metadata: tuple[object, ...], path: str, seen: set[type]) -> Iterator[str]:
    """Places of a model's types that take a boolean for a number."""
    if annotation in (int, float) and NUMBER not in metadata:
        yield path
    elif get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        yield from plain_numbers(inner, tuple(more), path, seen)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if annotation not in seen:
            seen.add(annotation)
            for name, field in annotation.model_fields.items():
                yield from plain_numbers(field.annotation, tuple(field.metadata), f"{path}.{name}", seen)
    else:
        for argument in get_args(annotation):
            yield from plain_numbers(argument, (), path, seen)


@pytest.mark.parametrize("model", MODELS, ids=[model.__name__ for model in MODELS])
def test_no_number_takes_a_boolean(model: type[BaseModel]) -> None:
    assert list(plain_numbers(model, (), model.__name__, set())) == []


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        0,
        -100,
        INT32 + 1,
        2**63,
        10**400,
        str(INT32 + 1),
        "9" * 25,
        "9" * 5000,
        1e300,
        "1e3",
        1.5,
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_count_of_32_bits_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Count).validate_python(value)


@pytest.mark.parametrize("value", [1, INT32, "1", str(INT32), 2.0])
def test_a_count_may_come_as_text(value: object) -> None:
    assert TypeAdapter(Count).validate_python(value) == int(str(value).removesuffix(".0"))


def nested(depth: int) -> Json:
    value: Json = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def test_free_form_json_has_a_depth_that_every_reader_can_take() -> None:
    adapter = TypeAdapter(FreeForm)
    adapter.validate_json(orjson.dumps(adapter.validate_python(nested(FREE_DEPTH))))
    with pytest.raises(ValidationError, match=f"nested deeper than the {FREE_DEPTH} levels"):
        adapter.validate_python(nested(FREE_DEPTH + 1))


UNKEEPABLE: dict[str, tuple[object, str]] = {
    "a level too deep": (nested(ENTITY_DEPTH + 1), "nested deeper"),
    "an integer of 65 bits": ({"a": [2**63]}, "a.0: should be a number of at most 64 bits"),
    "a small integer of 65 bits": ({"a": -(2**63) - 1}, "a: should be a number of at most 64 bits"),
    "infinity": ({"a": float("inf")}, "a: should be a finite number"),
    "NUL": ({"a": {"b": "x\x00"}}, "a.b: holds the character NUL"),
    "NUL in a key": ({"a": {"\x00": 1}}, r"a\.\\x00: holds the character NUL"),
    "half a surrogate pair": ({"a": "\ud800"}, "a: holds half a surrogate pair"),
    "half a surrogate pair in a key": ({"a": {"\udfff": 1}}, r"a\.\\udfff: holds half a surrogate pair"),
    "far below a strange name": ({"\x1b" * 500: {"b": "\x00"}}, "holds the character NUL"),
}


@pytest.mark.parametrize(("value", "message"), UNKEEPABLE.values(), ids=UNKEEPABLE)
def test_what_cannot_be_kept_is_named(value: object, message: str) -> None:
    with pytest.raises(Unkeepable, match=message):
        check_json(value)


def test_what_can_just_be_kept() -> None:
    kept = {"deep": nested(ENTITY_DEPTH - 1), "ends": [INT64, -INT64 - 1], "text": "ä𝄞\ufffd", "none": None}
    check_json(kept)
    assert orjson.loads(entity_json(kept)) == kept


def test_the_size_of_an_entity_counts_its_revision() -> None:
    content = {"metadata": {"revision": ""}, "text": ""}
    room = ENTITY_BYTES - len(orjson.dumps(content)) - 32
    fits = with_revision({"text": "t" * room}, "0" * 32)
    assert len(entity_json(fits)) == ENTITY_BYTES
    with pytest.raises(Unkeepable, match=f"{ENTITY_BYTES + 1} bytes") as refused:
        entity_json(with_revision({"text": "t" * (room + 1)}, "0" * 32))
    assert refused.value.too_large


@pytest.mark.parametrize(
    ("text", "clean"),
    [("fine", "fine"), ("a\x00b", "a\ufffdb"), ("\ud834", "\ufffd"), ("x" * 11, "x" * 9 + "…"), ("𝄞", "𝄞")],
)
def test_what_a_pod_said_is_made_fit(text: str, clean: str) -> None:
    assert cut(text, 10) == clean
    check_json(clean)


QUANTITIES = {
    "0": True, "100m": True, "1.5Gi": True, "2e3": True, "8191Pi": True, "+1": True, "9223372036854775807": True,
    "1e999": False, "1e-999": False, "-1": False, "8Ei": False, "9223372036854775808": False, "1" * 60: False,
    "1KB": False, "": False, "much": False, "1e19": False, "\u0661": False,
}  # fmt: skip


@pytest.mark.parametrize(("text", "allowed"), QUANTITIES.items())
def test_quantities_are_those_that_kubernetes_computes_with(text: str, allowed: bool) -> None:
    if allowed:
        assert TypeAdapter(Quantity).validate_python(text) == text
    else:
        with pytest.raises(ValidationError):
            TypeAdapter(Quantity).validate_python(text)


@pytest.mark.parametrize("name", ["A", "_a", "a.b-c", "HF_HOME"])
def test_names_of_variables(name: str) -> None:
    assert EnvVar(name=name, value="").name == name


@pytest.mark.parametrize("name", ["", "1A", "A=B", "A B", "ä", "A\n", "a" * 256])
def test_what_is_no_name_of_a_variable(name: str) -> None:
    with pytest.raises(ValidationError, match="name"):
        EnvVar(name=name, value="")


def test_an_argument_is_no_longer_than_a_program_is_started_with() -> None:
    adapter = TypeAdapter(Argument)
    assert adapter.validate_python("ä" * 65_535)
    with pytest.raises(ValidationError, match="131071 bytes"):
        adapter.validate_python("ä" * 65_536)


@pytest.mark.parametrize("gpus", [{"count": -100}, {"count": True}, {"count": "9" * 30}])
def test_a_count_of_gpus_is_not_negative(gpus: Json) -> None:
    with pytest.raises(ValidationError, match="count"):
        AcceleratorGPU.parse({"hardwareTypes": ["nvidia.com/gpu-t4"], **gpus})


@pytest.mark.parametrize(
    "name", ["", "NVIDIA.com/gpu", "a//b", "kubernetes.io/gpu", "x.kubernetes.io/gpu", "a/-b", "a" * 64]
)
def test_what_is_no_type_of_accelerator(name: str) -> None:
    with pytest.raises(ValidationError, match="hardwareTypes"):
        AcceleratorGPU(hardwareTypes=[name])


TIMES = {
    "2040-01-01T00:00:00Z": True,
    "8999-12-31T23:59:59Z": True,
    "9000-01-01T00:00:00Z": False,
    "9999-12-31T23:59:59-23:59": False,
    "0001-01-01T00:00:00+23:59": False,
}


@pytest.mark.parametrize(("time", "allowed"), TIMES.items())
def test_times_leave_room_for_every_duration(time: str, allowed: bool) -> None:
    if allowed:
        assert InferenceSessionCreateRequest(account="a", inferenceService=A, expires=time).expires
    else:
        with pytest.raises(ValidationError, match="expires"):
            InferenceSessionCreateRequest(account="a", inferenceService=A, expires=time)


@pytest.mark.parametrize(
    "field", ["totalTimeoutSeconds", "requestTimeoutSeconds", "transientErrorRetryDelaySeconds"]
)
def test_no_timeout_is_beyond_what_a_date_can_take(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        EvaluationCreateRequest.parse(
            {
                "account": "a",
                "dataset": A,
                "client": {field: 10**12},
                "inferenceSession": {"inferenceService": B},
            }
        )


FILES = {
    "a file beside a folder": (["a", "b/a"], ""),
    "a file that another lies in": (["a", "a/b"], "'a' is a file"),
    "also far below": (["a/b/c", "x", "a"], "'a' is a file"),
    "the platform's records": ([".steelyard/manifest.json"], "the platform's own"),
    "the platform's logs": ([".dyff/logs.txt"], "the platform's own"),
    "the platform's folder in capitals": ([".Dyff/x"], "the platform's own"),
    "a file of that name": ([".steelyard"], "the platform's own"),
    "below another folder": (["data/.steelyard/x"], ""),
}


@pytest.mark.parametrize(("paths", "fault"), FILES.values(), ids=FILES)
@pytest.mark.parametrize("kind", ["Dataset", "Module", "Model"])
def test_files_of_every_kind_that_has_some(kind: str, paths: list[str], fault: str) -> None:
    files = [{"path": path} for path in paths]
    sized = [{**file, "size": 1} for file in files]
    changes = (
        {"artifact": {"kind": "Volume", "volume": {"files": sized}}}
        if kind == "Model"
        else {"artifacts": files}
    )
    if fault:
        with pytest.raises(ValidationError, match=fault):
            make_request(kind, **changes)
    else:
        assert isinstance(make_request(kind, **changes), DatasetCreateRequest | ModelCreateRequest | Request)


def mount(name: str, path: str) -> Json:
    return {"kind": "Scratch", "name": name, "mountPath": path, "scratch": {"capacity": "1Gi"}}


MOUNTS = {
    "two names": ([mount("a", "/a"), mount("a", "/b")], "two mounts have this name"),
    "one path twice": ([mount("a", "/a"), mount("b", "/a/")], "two mounts have the mountPath"),
    "our folder": ([mount("a", "/tmp")], "the platform's own"),
    "our configuration": ([mount("a", "/etc/steelyard/")], "the platform's own"),
}


@pytest.mark.parametrize(("mounts", "fault"), MOUNTS.values(), ids=MOUNTS)
def test_mounts_are_those_that_kubernetes_takes(mounts: list[Json], fault: str) -> None:
    image = {"host": "h", "name": "a/b", "digest": "sha256:" + "0" * 64}
    runner = {"kind": "container", "image": image, "resources": {}, "volumeMounts": mounts}
    with pytest.raises(ValidationError, match=fault):
        make_request("InferenceService", runner=runner)
