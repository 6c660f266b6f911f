"""Adapters: a table of their semantics, and the published schema's own adapters as the judge."""

from typing import Any

import pytest
from dyff.schema.adapters import create_pipeline as published_pipeline
from hypothesis import given, reject
from hypothesis import strategies as st

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.adapters import AdapterNotImplemented, create_pipeline
from steelyard_schema.data import SchemaAdapter

CHOICES = {
    "id": 7,
    "choices": [{"text": "a", "n": 1}, {"text": "b", "n": 2}],
    "ranks": [1, 0],
    "object": {"x": {"y": 5}},
}


def specs(*pairs: tuple[str, JsonValue]) -> list[SchemaAdapter]:
    return [SchemaAdapter(kind=kind, configuration=configuration) for kind, configuration in pairs]


def run(item: JsonValue, *pairs: tuple[str, JsonValue]) -> list[JsonValue]:
    return list(create_pipeline(specs(*pairs))([item]))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([], [CHOICES], id="no adapter changes nothing"),
        pytest.param([("Drop", {"fields": ["choices", "ranks", "object", "other"]})], [{"id": 7}], id="drop"),
        pytest.param([("Select", {"fields": ["ranks", "id"]})], [{"ranks": [1, 0], "id": 7}], id="select"),
        pytest.param(
            [("Select", {"fields": ["id"]}), ("Rename", {"id": "key"})], [{"key": 7}], id="left to right"
        ),
        pytest.param(
            [("Select", {"fields": ["object"]}), ("FlattenHierarchy", None)],
            [{"object.x.y": 5}],
            id="flatten",
        ),
        pytest.param(
            [("Select", {"fields": ["object"]}), ("FlattenHierarchy", {"depth": 0})],
            [{"object": {"x": {"y": 5}}}],
            id="flatten to a depth",
        ),
        pytest.param(
            [
                ("Select", {"fields": ["choices", "ranks"]}),
                ("ExplodeCollections", {"collections": ["choices", "ranks"], "index": {"i": None}}),
            ],
            [
                {"choices": {"text": "a", "n": 1}, "ranks": 1, "i": 0},
                {"choices": {"text": "b", "n": 2}, "ranks": 0, "i": 1},
            ],
            id="explode into one item per element",
        ),
        pytest.param(
            [
                ("ExplodeCollections", {"collections": ["choices"], "index": {"n": "$.choices[*].n"}}),
                ("Select", {"fields": ["n"]}),
            ],
            [{"n": 1}, {"n": 2}],
            id="explode with an index from the data",
        ),
        pytest.param(
            [
                ("Select", {"fields": ["choices"]}),
                (
                    "Map",
                    {
                        "collections": ["choices"],
                        "adapter": {"kind": "Select", "configuration": {"fields": ["n"]}},
                    },
                ),
            ],
            [{"choices": [{"n": 1}, {"n": 2}]}],
            id="map over a collection",
        ),
        pytest.param(
            [
                (
                    "Pipeline",
                    {
                        "adapters": [
                            {"kind": "Select", "configuration": {"fields": ["id"]}},
                            {"kind": "Rename", "configuration": {"id": "n"}},
                        ]
                    },
                )
            ],
            [{"n": 7}],
            id="a pipeline inside a pipeline",
        ),
        pytest.param(
            [("TransformJSON", {"a": "$.object.x.y", "b": ["$.choices[1].text", "$$x", 3], "$$c": None})],
            [{"a": 5, "b": ["b", "$x", 3], "$c": None}],
            id="a template with paths, literals and escapes",
        ),
        pytest.param(
            [
                (
                    "TransformJSON",
                    {
                        "all": {
                            "$compute": [{"$list": "$.choices[*].text"}, {"$func": "join", "separator": "+"}]
                        },
                        "sub": {
                            "$compute": [
                                {"$literal": "a1b2"},
                                {"$func": "sub", "pattern": "[0-9]", "repl": ""},
                                {"$func": "list"},
                            ]
                        },
                        "found": {
                            "$compute": [
                                {"$literal": "x=12"},
                                {"$func": "search", "pattern": "(\\d)(\\d)", "group": 2},
                            ]
                        },
                        "sum": {"$compute": [{"$list": "$.ranks[*]"}, {"$func": "reduce"}]},
                        "parts": {
                            "$compute": [
                                {"$literal": "a,b"},
                                {"$func": "split", "pattern": ",", "maxsplit": 1},
                            ]
                        },
                        "every": {
                            "$compute": [{"$literal": "a1b22"}, {"$func": "findall", "pattern": "[0-9]+"}]
                        },
                        "pair": {"$compute": {"$list": [{"$scalar": "$.id"}, {"$literal": "$.id"}]}},
                    },
                )
            ],
            [
                {
                    "all": "a+b",
                    "sub": ["a", "b"],
                    "found": "2",
                    "sum": 1,
                    "parts": ["a", "b"],
                    "every": ["1", "22"],
                    "pair": [7, "$.id"],
                }
            ],
            id="computations",
        ),
    ],
)
def test_what_each_adapter_does(steps: list[tuple[str, JsonValue]], expected: list[JsonValue]) -> None:
    assert run(CHOICES, *steps) == expected


@pytest.mark.parametrize(
    ("kind", "configuration", "message"),
    [
        ("EmbedIndex", {}, "there is no adapter 'EmbedIndex'"),
        ("Drop", {}, "Drop: KeyError 'fields'"),
        ("Drop", {"fields": "id"}, "must be a list of strings"),
        ("ExplodeCollections", {"collections": []}, "collections is empty"),
        ("FlattenHierarchy", {"depth": -1}, "must not be negative"),
        ("TransformJSON", {"$key": 1}, "is reserved"),
        ("TransformJSON", {"a": {"$compute": [], "b": 1}}, "the only key"),
        ("TransformJSON", {"a": {"$compute": [{"$func": "eval"}]}}, "there is no function 'eval'"),
        ("TransformJSON", {"a": {"$compute": [{"$func": "sub"}]}}, "TypeError"),
        ("TransformJSON", {"a": {"$compute": [{"$scalar": "x"}]}}, "takes a JSONPath"),
        ("TransformJSON", {"a": {"$compute": [{"$list": "$$"}]}}, "takes a JSONPath"),
        ("TransformJSON", {"a": {"$compute": [{"x": 1}]}}, "expected one of"),
        ("TransformJSON", {"a": "$.[["}, "TransformJSON"),
        ("ExplodeCollections", {"collections": ["a"], "index": ["$.a"]}, "AttributeError"),
    ],
)
def test_a_wrong_configuration_is_refused_when_compiled(
    kind: str, configuration: JsonValue, message: str
) -> None:
    with pytest.raises(ValueError, match=message.replace("$", r"\$")):
        create_pipeline(specs((kind, configuration)))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([("Select", {"fields": ["absent"]})], "no field 'absent'"),
        ([("Rename", {"absent": "b"})], "no field 'absent'"),
        ([("ExplodeCollections", {"collections": ["id"]})], "must be a list"),
        ([("ExplodeCollections", {"collections": ["ranks", "three"]})], "differ in length"),
        ([("TransformJSON", {"a": "$.absent"})], "has no match"),
        ([("TransformJSON", {"a": "$.ranks[9]"})], "has no match"),
        ([("TransformJSON", {"a": "$.choices[*].text"})], "has 2 matches"),
    ],
)
def test_an_item_that_does_not_fit_is_a_fault_of_the_item(
    steps: list[tuple[str, JsonValue]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(CHOICES | {"three": [1, 2, 3]}, *steps)


def test_an_item_that_is_nested_too_deeply_is_a_fault_of_the_item() -> None:
    deep: dict[str, JsonValue] = {}
    for _ in range(1_000):  # as deep as the JSON of an answer may be
        deep = {"a": deep}
    with pytest.raises(ValueError, match="nested too deeply"):
        run({"a": deep}, ("FlattenHierarchy", {}))


def test_file_upload_is_refused_as_not_implemented() -> None:
    with pytest.raises(AdapterNotImplemented, match="FileUpload"):
        create_pipeline(specs(("FileUpload", {"field": "$.x"})))


def test_items_are_not_changed_in_place() -> None:
    before = repr(CHOICES)
    run(
        CHOICES,
        ("FlattenHierarchy", {"fields": ["object"]}),
        ("Rename", {"id": "n"}),
        ("Drop", {"fields": ["n"]}),
    )
    assert repr(CHOICES) == before


NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
OBJECTS = st.dictionaries(NAMES, SCALARS, max_size=2)
VALUES = st.sampled_from(["$.a", "$.b", "$.b.a", "$.c[0].a", "$.d[1]", "$$a", "text", 3])
ITEMS = st.fixed_dictionaries(
    {"a": SCALARS, "b": st.dictionaries(NAMES, SCALARS | OBJECTS, max_size=3)},
    optional={"c": st.lists(OBJECTS, max_size=3), "d": st.lists(SCALARS, max_size=3)},
)
FIELDS = st.lists(NAMES, min_size=1, max_size=3, unique=True)
STEPS = st.one_of(
    st.tuples(st.just("Drop"), st.fixed_dictionaries({"fields": FIELDS})),
    st.tuples(st.just("Select"), st.fixed_dictionaries({"fields": FIELDS})),
    st.tuples(st.just("Rename"), st.dictionaries(NAMES, NAMES, min_size=1, max_size=2)),
    st.tuples(
        st.just("FlattenHierarchy"),
        st.fixed_dictionaries(
            {"addPrefix": st.booleans(), "fields": st.lists(NAMES, max_size=2, unique=True)},
            optional={"depth": st.integers(0, 2)},
        ),
    ),
    st.tuples(
        st.just("ExplodeCollections"),
        st.fixed_dictionaries(
            {"collections": st.lists(st.sampled_from(["c", "d"]), min_size=1, max_size=2, unique=True)},
            optional={"index": st.sampled_from([{"i": None}, {"i": "$.d[*]"}])},
        ),
    ),
    st.tuples(
        st.just("TransformJSON"),
        st.dictionaries(NAMES, VALUES, max_size=3),
    ),
)


@given(item=ITEMS, steps=st.lists(STEPS, max_size=4))
def test_pipelines_agree_with_the_published_ones(item: JsonValue, steps: list[tuple[str, JsonValue]]) -> None:
    def outcome(make: Any) -> JsonValue:
        try:
            return list(make(specs(*steps))([item]))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            if "must be a list" in str(error):
                reject()  # the published adapter explodes a string into its characters
            return "fault"

    def published(adapters: list[SchemaAdapter]) -> Any:
        return published_pipeline([adapter.model_dump() for adapter in adapters])

    assert outcome(create_pipeline) == outcome(published)
