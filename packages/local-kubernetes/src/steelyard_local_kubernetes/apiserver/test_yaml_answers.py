"""Answers in YAML: who gets them, and how texts are written."""

import orjson
import pytest
import yaml

from steelyard_local_kubernetes.apiserver.access.users import administrator
from steelyard_local_kubernetes.apiserver.messages import Request, Response
from steelyard_local_kubernetes.apiserver.yaml_answers import in_yaml, wants_yaml


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("application/yaml", True),
        ("text/html, application/yaml;q=1, application/json", True),
        ("application/json, application/yaml", False),
        ("*/*, application/yaml", False),
        ("", False),
    ],
)
def test_the_first_served_type_decides(accept: str, wanted: bool) -> None:
    assert wants_yaml(Request("GET", "/", {}, {"accept": accept}, b"", administrator("a"))) is wanted


def test_texts_that_resemble_other_values_are_quoted() -> None:
    content = {
        "kind": "Status",
        "b": {"yes": "true", "n": "1", "t": "a\nb\n", "e": ""},
        "a": [{"x": 1, "y": None}],
    }
    answer = in_yaml(Response(orjson.dumps(content)))
    assert isinstance(answer.body, bytes)
    assert yaml.safe_load(answer.body) == content
    assert answer.body.decode().startswith('a:\n- x: 1\n  "y": null\nb:\n  e: ""\n  "n": "1"\n')
    assert answer.content_type == "application/yaml"


def test_text_stays_text() -> None:
    assert in_yaml(Response(b"ok", content_type="text/plain")).body == b"ok"
