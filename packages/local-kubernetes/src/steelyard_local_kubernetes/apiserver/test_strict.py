"""Bodies that have fields twice or that are not objects; the messages are a real server's."""

import orjson
import pytest

from steelyard_common.types import Json
from steelyard_local_kubernetes.apiserver.content import BadContent, decode_json
from steelyard_local_kubernetes.apiserver.managed.yaml import BadYaml, yaml_object
from steelyard_local_kubernetes.apiserver.published import kind_node
from steelyard_local_kubernetes.apiserver.strict import has_key_twice, strict_faults


@pytest.mark.parametrize(
    ("body", "twice"),
    [
        (b'{"a": 1, "b": {"c": [{"d": ""}]}}', False),
        (b'{"a": 1, "a": 1}', True),
        (b'{"a": [{"b": 1, "b": {}}]}', True),
        # An escaped quote in place of the lost ones: a body with an escape is always read again.
        (b'{"a": 1, "a": "\\u0022\\u0022"}', True),
    ],
)
def test_a_key_that_is_there_twice_is_noticed(body: bytes, twice: bool) -> None:
    assert has_key_twice(body, orjson.loads(body)) is twice


@pytest.mark.parametrize(
    ("body", "content", "faults"),
    [
        (b"a: 1\nb: 2\n", {"a": 1, "b": 2}, []),
        (b"a: 1\na: 2\n", {"a": 2}, ['line 2: key "a" already set in map']),
        (
            b'{"a": 1,\n"b": {"c": 1, "c": 2}}',
            {"a": 1, "b": {"c": 2}},
            ['line 2: key "c" already set in map'],
        ),
        (b"x: &x {a: 1}\nb: {<<: *x, a: 2}\n", {"x": {"a": 1}, "b": {"a": 2}}, []),
    ],
    ids=["once", "twice", "twice in JSON", "a merge key"],
)
def test_keys_of_yaml_that_are_there_twice_are_told(body: bytes, content: Json, faults: list[str]) -> None:
    twice: list[str] = []
    assert (yaml_object(body, twice), twice) == (content, faults)


def test_a_list_is_no_key_of_yaml() -> None:
    with pytest.raises(BadYaml, match="found unhashable key"):
        yaml_object(b"? [a]\n: b\n", [])


def test_faults_stand_in_the_order_of_the_body() -> None:
    body = b'{"spec": {"foo": {"x": 1, "x": 2}, "containers": [{"image": "", "image": ""}], "containers": []}, "y": 1}'
    assert strict_faults(kind_node("", "v1", "Pod"), body, free=False) == [
        'unknown field "spec.foo"',
        'duplicate field "spec.containers[0].image"',
        'duplicate field "spec.containers"',
        'unknown field "y"',
    ]
    assert strict_faults(kind_node("", "v1", "Pod"), body, free=True)[0] == 'duplicate field "spec.foo.x"'


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b'{"a": "b', "unexpected end of JSON input"),
        (b"x", "invalid character 'x' looking for beginning of value"),
        (b"{x", "invalid character 'x' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a": [1] "b"}', "invalid character '\"' after object key:value pair"),
        (b'{"a": [1 2]}', "invalid character '2' after array element"),
        (b"{} x", "invalid character 'x' after top-level value"),
    ],
)
def test_what_is_no_json_is_refused_in_gos_words(body: bytes, fault: str) -> None:
    with pytest.raises(BadContent) as caught:
        decode_json(body)
    assert str(caught.value) == fault
