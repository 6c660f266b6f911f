"""Requests: the refusals, and that each names the field."""

from typing import Any

import pytest
from pydantic import ValidationError

from steelyard_schema.bounds import SUMMARY_LENGTH, TITLE_LENGTH
from steelyard_schema.paths import check_artifact_path, check_md5
from steelyard_schema.requests import (
    CREATE_REQUESTS,
    AccountTokenCreateRequest,
    DocumentationEditRequest,
    LabelsEditRequest,
    Request,
)

A, B = "a" * 32, "b" * 32
MD5 = "1B2M2Y8AsgTpgAmY7PhCfg=="
SCHEMA = {"arrowSchema": "AAAA"}
DOUBLING = [{"name": "A0", "value": "xx"}] + [
    {"name": f"A{level}", "value": f"$(A{level - 1})$(A{level - 1})"} for level in range(1, 31)
]
IMAGE = {"host": "registry.example", "name": "a/b", "digest": "sha256:" + "0" * 64}
FIELDS: dict[str, dict[str, Any]] = {
    "Dataset": {"name": "d", "schema": SCHEMA, "artifacts": [{"path": "a.parquet", "digest": {"md5": MD5}}]},
    "Module": {"name": "m", "artifacts": [{"path": "a.py"}]},
    "Model": {
        "name": "m",
        "artifact": {"kind": "Volume", "volume": {"files": [{"path": "a", "size": 1}]}},
        "source": {"kind": "Upload"},
        "resources": {},
    },
    "InferenceService": {
        "name": "s",
        "runner": {"kind": "mock", "image": IMAGE, "resources": {}},
        "interface": {"endpoint": "x", "outputSchema": SCHEMA},
    },
    "InferenceSession": {"inferenceService": A},
    "Evaluation": {"dataset": A, "inferenceSession": {"inferenceService": B}},
    "Report": {"rubric": "r", "evaluation": A},
    "AuditProcedure": {"name": "p", "requirements": [{"dataset": A, "rubric": "r"}]},
    "Audit": {"auditProcedure": A, "inferenceService": B},
    "Method": {
        "name": "m",
        "scope": "Evaluation",
        "implementation": {"kind": "PythonFunction", "pythonFunction": {"fullyQualifiedName": "a.b"}},
        "output": {"kind": "SafetyCase", "safetyCase": {"name": "s"}},
    },
    "Measurement": {"method": A},
    "SafetyCase": {"method": A},
    "Family": {"memberKind": "Dataset"},
    "UseCase": {},
    "Hazard": {},
    "Pipeline": {
        "name": "p",
        "nodes": {"a": {"name": "a", "request": {"kind": "PipelineMeasurementRequest", "method": "$(m)"}}},
    },
    "PipelineRun": {"pipeline": A},
    "Challenge": {},
    "Team": {"members": {}, "affiliations": {}},
    "Submission": {"team": A, "submission": {"id": B, "kind": "InferenceService"}},
    "OCIArtifact": {},
    "DataSource": {"name": "d", "sourceKind": "zenodo", "source": "7002"},
}


def make_request(kind: str, **changes: Any) -> Request:
    """Make a request of fields; fields that are None are left out."""
    fields = {"account": "acme", **FIELDS[kind], **changes}
    return CREATE_REQUESTS[kind].parse({key: value for key, value in fields.items() if value is not None})


@pytest.mark.parametrize("kind", FIELDS)
def test_every_kind_has_a_request_which_is_taken_as_it_is(kind: str) -> None:
    assert make_request(kind).dump().items() >= {"account": "acme"}.items()
    assert set(FIELDS) == set(CREATE_REQUESTS)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *((kind, {"surprise": 1}, "surprise") for kind in FIELDS),
    *((kind, {"account": None}, "account") for kind in FIELDS),
    *((kind, {"account": "-acme"}, "account") for kind in FIELDS),
    *((kind, {"account": "a" * 64}, "account") for kind in FIELDS),
    *((kind, {"account": ""}, "account") for kind in FIELDS),
    *((kind, {"name": ""}, "name") for kind in FIELDS if "name" in FIELDS[kind]),
    *((kind, {"name": "n" * 256}, "name") for kind in FIELDS if "name" in FIELDS[kind]),
    ("Dataset", {"artifacts": []}, "artifacts"),
    ("Dataset", {"artifacts": [{"path": "../a"}]}, "artifacts"),
    ("Dataset", {"artifacts": [{"path": "a", "digest": {"md5": "x"}}]}, "artifacts"),
    ("Dataset", {"artifacts": [{"path": "a"}, {"path": "a"}]}, "is there twice"),
    ("Module", {"artifacts": [{"path": "aux.py"}]}, "artifacts"),
    (
        "Model",
        {"artifact": {"kind": "Volume", "volume": {"files": [{"path": "/a", "size": 1}]}}},
        "artifact",
    ),
    ("InferenceService", {"runner": None}, "runner"),
    ("InferenceService", {"runner": {"kind": "mock", "resources": {}}}, "image"),
    (
        "InferenceService",
        {
            "runner": {
                "kind": "mock",
                "resources": {},
                "image": IMAGE,
                "imageRef": {"kind": "OCIArtifact", "id": A},
            }
        },
        "image",
    ),
    (
        "InferenceService",
        {"runner": {"kind": "mock", "resources": {}, "image": IMAGE, "env": DOUBLING}},
        r"env\[16\].value may not take more than 131071 bytes",
    ),
    (
        "InferenceService",
        {
            "runner": {
                "kind": "mock",
                "resources": {},
                "image": IMAGE,
                "env": DOUBLING[:16],
                "args": ["$(A15)" * 3],
            }
        },
        r"args\[0\] may not take more than 131071 bytes",
    ),
    ("InferenceService", {"model": "my-model"}, "model"),
    ("InferenceSession", {"replicas": 0}, "replicas"),
    ("InferenceSession", {"expires": "2030-01-01T00:00:00"}, "expires"),
    ("Evaluation", {"inferenceSession": None}, "inferenceSessionReference"),
    ("Evaluation", {"inferenceSessionReference": A}, "inferenceSessionReference"),
    (
        "Evaluation",
        {"inferenceSession": {"inferenceService": A, "expires": "2030-01-01T00:00:00"}},
        "expires",
    ),
    ("Evaluation", {"dataset": A.upper()}, "dataset"),
    ("Report", {"rubric": ""}, "rubric"),
    ("Report", {"modules": ["m"]}, "modules"),
    ("AuditProcedure", {"requirements": []}, "requirements"),
    ("Audit", {"baseline": "none"}, "baseline"),
]


@pytest.mark.parametrize(("kind", "changes", "named"), REFUSED, ids=str)
def test_what_is_refused_is_named(kind: str, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        make_request(kind, **changes)


LABELS = {
    "a key without a domain": ({"tier": "gold"}, True),
    "a key with a domain": ({"example.com/tier": "gold"}, True),
    "null takes away": ({"tier": None}, True),
    "an empty value": ({"tier": ""}, True),
    "63 characters": ({"tier": "v" * 63}, True),
    "64 characters": ({"tier": "v" * 64}, False),
    "a blank": ({"tier": "very gold"}, False),
    "a line feed at the end": ({"tier": "gold\n"}, False),
    "no key": ({"": "gold"}, False),
    "a key that ends in a dash": ({"tier-": "gold"}, False),
    "a key of 318 characters": ({"a" * 63 + "/" + "b" * 254: "gold"}, False),
}


@pytest.mark.parametrize(("labels", "allowed"), LABELS.values(), ids=LABELS)
def test_labels_have_the_syntax_of_kubernetes(labels: dict[str, str | None], allowed: bool) -> None:
    if allowed:
        assert LabelsEditRequest(labels=labels).dump()["labels"] == labels
    else:
        with pytest.raises(ValidationError, match="labels"):
            LabelsEditRequest(labels=labels)


@pytest.mark.parametrize(("field", "most"), [("title", 140), ("summary", 280)])
def test_documentation_has_its_lengths(field: str, most: int) -> None:
    DocumentationEditRequest.parse({"documentation": {field: "t" * most}})
    with pytest.raises(ValidationError, match=field):
        DocumentationEditRequest.parse({"documentation": {field: "t" * (most + 1)}})


def test_an_edit_keeps_the_nulls_that_were_given_and_no_others() -> None:
    request = {"documentation": {"title": "T", "summary": None}}
    assert DocumentationEditRequest.parse(request).dump() == {"schemaVersion": "0.1", **request}


def test_a_token_needs_to_know_which_time_is_meant() -> None:
    with pytest.raises(ValidationError, match="expires"):
        AccountTokenCreateRequest.parse({"grants": [], "expires": "2030-01-01T00:00:00"})


PATHS = {
    "data.parquet": True,
    "a/b/c.parquet": True,
    "a b/ä.parquet": True,
    "..a/.b": True,
    "a" * 255: True,
    "/".join(["a" * 99] * 9): True,  # 899 bytes
    "": False,
    "/a": False,
    "a/": False,
    "a//b": False,
    ".": False,
    "a/../b": False,
    "a\\b": False,
    "a?b": False,
    "a%2e": False,
    "a\nb": False,
    "a\x7f": False,
    "a.": False,
    "a ": False,
    "NUL": False,
    "x/com1.txt": False,
    "company": True,
    "ä" * 128: False,
    "/".join(["a" * 100] * 9): False,  # 908 bytes
}


@pytest.mark.parametrize(("path", "allowed"), PATHS.items(), ids=[path[:20] or "empty" for path in PATHS])
def test_paths_of_uploads(path: str, allowed: bool) -> None:
    if allowed:
        assert check_artifact_path(path) == path
    else:
        with pytest.raises(ValueError, match="path"):
            check_artifact_path(path)


@pytest.mark.parametrize(
    "md5", ["", "1B2M2Y8AsgTpgAmY7PhCfg", "d41d8cd98f00b204e9800998ecf8427e", "AAAA", "ä"]
)
def test_a_digest_that_is_none_is_refused(md5: str) -> None:
    with pytest.raises(ValueError, match=r"a\.txt: digest\.md5"):
        check_md5(md5, "a.txt")


@pytest.mark.parametrize("kind", [*CREATE_REQUESTS, "an edit"])
def test_texts_for_people_have_the_limits_of_an_edit(kind: str) -> None:
    """Fields of every kind of request are meant, whatever part of it they stand in."""
    model = CREATE_REQUESTS.get(kind, DocumentationEditRequest)
    limits = {"title": TITLE_LENGTH, "summary": SUMMARY_LENGTH}
    schema = model.model_json_schema()
    for part in [schema, *schema.get("$defs", {}).values()]:
        for name, most in limits.items():
            field = part.get("properties", {}).get(name, {})
            texts = [one for one in [field, *field.get("anyOf", [])] if one.get("type") == "string"]
            assert [text.get("maxLength") for text in texts] == [most] * len(texts), (part["title"], name)


@pytest.mark.parametrize("kind", ["UseCase", "Hazard"])
def test_documentation_of_a_new_concern_has_the_limits_of_an_edit(kind: str) -> None:
    fits = {"title": "t" * TITLE_LENGTH, "summary": "s" * SUMMARY_LENGTH}
    CREATE_REQUESTS[kind].model_validate({"account": "a", "documentation": fits})
    for name, text in fits.items():
        with pytest.raises(ValidationError, match=name):
            CREATE_REQUESTS[kind].model_validate(
                {"account": "a", "documentation": {**fits, name: text + "x"}}
            )
