"""Schemas that are read without pyarrow are what pyarrow reads, whatever types they have; broken ones are refused."""

import base64
import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.api.croissant import writing
from steelyard_common import arrow_schema
from steelyard_common.arrow_schema import BadArrowSchema, read_fields

PLAIN: list[pa.DataType] = [
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.float16(),
    pa.float32(), pa.float64(), pa.binary(), pa.binary(4), pa.large_binary(), pa.binary_view(), pa.string(),
    pa.large_string(), pa.string_view(), pa.decimal32(5, 1), pa.decimal64(12, 1), pa.decimal128(10, 2),
    pa.decimal256(50, -3), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"),
    pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ns", tz="Europe/Berlin"), pa.duration("ms"),
    pa.duration("ns"), pa.month_day_nano_interval(), pa.uuid(), pa.json_(), pa.bool8(),
]  # fmt: skip
NAMES = st.sampled_from(["a", "b", "item", "key", "value", "", "ä", "a: b"])


def fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy["pa.Field[pa.DataType]"]:
    return st.builds(
        lambda name, kind, nullable: pa.field(name, kind, nullable=nullable or pa.types.is_null(kind)),
        NAMES,
        types,
        st.booleans(),
    )


def nested(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    inner = fields(types)
    several = st.lists(inner, max_size=3)
    keys = st.sampled_from([pa.string(), pa.int64()])
    return st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.list_, inner, st.integers(0, 9)),
        st.builds(pa.large_list, inner),
        st.builds(pa.list_view, inner),
        st.builds(pa.large_list_view, inner),
        st.builds(pa.struct, several),
        st.builds(pa.sparse_union, several),
        several.flatmap(
            lambda members: st.permutations(range(10)).map(
                lambda codes: pa.dense_union(members, codes[: len(members)])
            )
        ),
        st.builds(pa.map_, keys, inner, st.booleans()),
        st.builds(
            pa.dictionary,
            st.sampled_from([pa.int8(), pa.uint32()]),
            st.sampled_from(PLAIN[:-3]),
            st.booleans(),
        ),
        st.builds(pa.run_end_encoded, st.just(pa.int32()), st.sampled_from(PLAIN[:10])),
    )


TYPES = st.recursive(st.sampled_from(PLAIN), nested, max_leaves=6)


def encode(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


@given(st.lists(fields(TYPES), max_size=4))
def test_names_and_types_are_those_that_pyarrow_reads(columns: list["pa.Field[pa.DataType]"]) -> None:
    text = encode(pa.schema(columns))
    expected = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    assert [(field.name, field.type.text, field.nullable) for field in read_fields(text)] == [
        (field.name, str(field.type), field.nullable) for field in expected
    ]


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_each_type_is_read(kind: pa.DataType) -> None:
    (field,) = read_fields(encode(pa.schema([pa.field("a", kind, metadata={"note": "one"})], {"x": "y"})))
    assert (field.name, field.type.text) == ("a", str(kind))


def test_parameters_of_extensions_are_left_out() -> None:
    (field,) = read_fields(encode(pa.schema([("a", pa.fixed_shape_tensor(pa.int32(), [2, 3]))])))
    assert field.type.text == "extension<arrow.fixed_shape_tensor>"


@given(TYPES)
def test_croissant_has_words_for_the_types_that_have_them_in_arrow(kind: pa.DataType) -> None:
    (field,) = read_fields(encode(pa.schema([("a", kind)])))
    types = pa.types
    inner = kind
    while types.is_list(inner) or types.is_large_list(inner) or types.is_fixed_size_list(inner):
        inner = inner.value_type
    wordless = types.is_nested(inner) or types.is_duration(inner) or types.is_interval(inner)
    assert writing._has_word(field.type) is not wordless
    assert (field.type.number == arrow_schema.STRUCT) is types.is_struct(kind)


def test_broken_schemas_are_refused_or_read() -> None:
    """A broken schema raises no other error."""
    whole = base64.b64decode(
        encode(pa.schema([("a", pa.list_(pa.string())), ("b", pa.timestamp("s", "UTC"))]))
    )
    chance = random.Random(1)
    refused = 0
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            read_fields(
                base64.b64encode(data[: chance.choice((len(data), chance.randrange(len(data))))]).decode()
            )
        except BadArrowSchema:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize("text", ["", "AAAA", "nothing", "/////w==", "ä"])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(BadArrowSchema):
        read_fields(text)


def test_a_message_with_rows_is_refused() -> None:
    batch = pa.record_batch({"a": [1]}).serialize().to_pybytes()
    with pytest.raises(BadArrowSchema, match="no message with a schema"):
        read_fields(base64.b64encode(batch).decode())


def test_fields_lie_within_a_bounded_number_of_others() -> None:
    kind: pa.DataType = pa.int8()
    for _ in range(arrow_schema.DEPTH + 1):
        kind = pa.struct([("a", kind)])
    with pytest.raises(BadArrowSchema, match="within more than"):
        read_fields(encode(pa.schema([("a", kind)])))
