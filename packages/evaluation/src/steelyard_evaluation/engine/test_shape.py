"""Answers against the output schema: what passes is always what Arrow can write."""

import base64

import pyarrow as pa
import pytest
from dyff.schema.platform import DataSchema
from hypothesis import given
from hypothesis import strategies as st

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.doubles import encode_schema
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.shape import Malformed, Shape, output_schema


def shape_of(**fields: pa.DataType) -> Shape:
    return Shape(output_schema(encode_schema(pa.schema(fields))))


def one(answer: JsonValue, **fields: pa.DataType) -> JsonValue:
    return shape_of(**fields)([answer])[0]


def test_the_published_output_schema_and_a_bare_answer_schema_are_the_same_to_us() -> None:
    bare = pa.schema({"text": pa.string()})
    published = DataSchema.make_output_schema(bare)
    assert output_schema(published.arrowSchema) == output_schema(encode_schema(bare))
    assert output_schema(encode_schema(bare)).names == ["_index_", "_replication_", "responses"]


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        ("not base64!", "not an Arrow schema"),
        (base64.b64encode(b"nonsense").decode(), "not an Arrow schema"),
        (encode_schema(pa.schema({"_index_": pa.int64()})), "describes no field"),
        (encode_schema(pa.schema({"responses": pa.string()})), "must be a list of structs"),
    ],
)
def test_an_output_schema_that_is_none(encoded: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        output_schema(encoded)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        pytest.param(pa.string(), "x", "x", id="text"),
        pytest.param(pa.int64(), 3, 3, id="an integer"),
        pytest.param(pa.float64(), 3, 3.0, id="a whole number where a float is asked"),
        pytest.param(pa.bool_(), True, True, id="a boolean"),
        pytest.param(pa.list_(pa.int8()), [1, None], [1, None], id="a list"),
        pytest.param(pa.map_(pa.string(), pa.float64()), {"a": 1}, [("a", 1.0)], id="a map"),
        pytest.param(pa.binary(), "aGk=", b"hi", id="base64"),
        pytest.param(pa.struct([("x", pa.int64())]), {"x": 1, "y": 2}, {"x": 1}, id="more fields than asked"),
        pytest.param(pa.list_(pa.float32(), 2), [1, 2.5], [1.0, 2.5], id="a vector"),
    ],
)
def test_an_answer_that_fits(kind: pa.DataType, value: JsonValue, expected: JsonValue) -> None:
    assert one({"field": value}, field=kind) == {"_response_index_": 0, "field": expected}


def _pairs(*fields: tuple[str, pa.DataType]) -> pa.DataType:
    return pa.list_(pa.struct(fields))


MARKED: dict[str, tuple[pa.DataType, JsonValue, JsonValue]] = {
    "pairs": (
        _pairs(("key", pa.string()), ("value", pa.int64())),
        {"a": 1},
        [{"key": "a", "value": 1}],
    ),
    "a number": (pa.int64(), 1, 1),
    "a text": (pa.string(), "a", "a"),
    "a list": (pa.list_(pa.int64()), [1], [1]),
    "an object": (pa.struct([("key", pa.string())]), {"key": "a"}, {"key": "a"}),
    "a map": (pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
    "keys without values": (_pairs(("key", pa.string())), [{"key": "a"}], [{"key": "a"}]),
    "keys that are numbers": (
        _pairs(("key", pa.int64()), ("value", pa.int64())),
        [{"key": 1, "value": 2}],
        [{"key": 1, "value": 2}],
    ),
    "pairs of a fixed number": (
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.int64())]), 1),
        [{"key": "a", "value": 2}],
        [{"key": "a", "value": 2}],
    ),
}


@pytest.mark.parametrize("name", MARKED)
def test_the_mark_of_pairs_is_for_pairs_alone(name: str) -> None:
    kind, value, expected = MARKED[name]
    schema = output_schema(encode_schema(pa.schema([pa.field("x", kind, metadata={"steelyard.map": "1"})])))
    (answer,) = Shape(schema)([{"x": value}])
    assert answer == {"_response_index_": 0, "x": expected}
    row = {"_index_": 0, "_replication_": "r", "responses": [answer]}
    (read,) = to_rows(pa.Table.from_pylist([row], schema=schema))
    assert read["responses"] == [{"_response_index_": 0, "x": value}]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (pa.string(), 3, "expected a string, got 3"),
        (pa.int64(), "3", "expected an integer"),
        (pa.int64(), True, "expected an integer"),
        (pa.int8(), 128, "expected an integer"),
        (pa.uint8(), -1, "expected an integer"),
        (pa.float64(), "1.5", "expected a number"),
        (pa.bool_(), 1, "expected a boolean"),
        (pa.list_(pa.string()), "x", "expected a list"),
        (pa.list_(pa.float32(), 2), [1], "expected 2 items"),
        (pa.map_(pa.string(), pa.float64()), [1], "expected an object"),
        (pa.map_(pa.string(), pa.float64()), {"a": "x"}, "expected a number"),
        (pa.struct([("x", pa.int64())]), {"y": 2}, "none of x"),
        (pa.binary(), "§", "expected base64"),
        (pa.timestamp("us"), "yesterday", "expected a time"),
        (pa.timestamp("ns"), "9999-01-01", "expected a time"),
        (pa.timestamp("us", "UTC"), "0001-01-01T00:00:00+10:00", "expected a time"),
        (pa.date32(), "yesterday", "expected date32"),
    ],
)
def test_an_answer_that_does_not_fit_says_where(kind: pa.DataType, value: JsonValue, message: str) -> None:
    with pytest.raises(Malformed, match=message) as error:
        one({"field": value}, field=kind)
    assert str(error.value).startswith("response 0: field: ")


@pytest.mark.parametrize("answer", [None, 3, "text", [], {}, {"error": "overloaded"}])
def test_an_answer_without_any_field_is_malformed(answer: JsonValue) -> None:
    with pytest.raises(Malformed):
        one(answer, text=pa.string())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=8,
)
TYPES = st.recursive(
    st.sampled_from(
        [
            pa.string(),
            pa.int8(),
            pa.uint64(),
            pa.int64(),
            pa.float32(),
            pa.float64(),
            pa.bool_(),
            pa.binary(),
            pa.date32(),
            pa.timestamp("ns"),
            pa.timestamp("us", "UTC"),
        ]
    ),
    lambda inner: (
        st.builds(pa.list_, inner)
        | st.builds(lambda kind: pa.map_(pa.string(), kind), inner)
        | st.builds(lambda kind: pa.struct([("a", kind), ("b", pa.string())]), inner)
    ),
    max_leaves=4,
)


@given(kind=TYPES, value=JSON)
def test_what_passes_the_check_can_always_be_written(kind: pa.DataType, value: JsonValue) -> None:
    schema = output_schema(encode_schema(pa.schema({"field": kind})))
    try:
        responses = Shape(schema)([{"field": value}])
    except Malformed:
        return
    pa.array([responses], schema.field("responses").type)
