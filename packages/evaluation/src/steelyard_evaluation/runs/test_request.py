"""The identity holds what answers depend on, and nothing else; a request survives its document."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.errors import UsageError
from steelyard_evaluation.engine.manifest import FileEntry
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.request import (
    Limits,
    PromptSpec,
    RubricSpec,
    RunRequest,
    SourceSpec,
    from_document,
    identity,
    to_document,
)
from steelyard_evaluation.runs.spending.prices import PriceSpec
from steelyard_evaluation.runs.tasks.model import TaskLimits
from steelyard_schema.evaluation import EvaluationClientConfiguration

FILES = [FileEntry(path="p.parquet", size=10, sha256="a" * 64, rows=3)]
BASE = RunRequest(SourceSpec("p.parquet", sample=2), model="m", urls=("http://a",))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(BASE, urls=("http://b", "http://c")), id="endpoint"),
        pytest.param(replace(BASE, model="other"), id="model"),
        pytest.param(replace(BASE, replications=2), id="replications"),
        *(
            pytest.param(replace(BASE, source=replace(BASE.source, **change)), id=str(change))
            for change in ({"limit": 1}, {"sample": 1}, {"seed": 1}, {"columns": {"prompt": "q"}})
        ),
        *(
            pytest.param(replace(BASE, prompt=PromptSpec(**change)), id=str(change))
            for change in (
                {"api": "completions"},
                {"template": "x"},
                {"column": "q"},
                {"system": "x"},
                {"few_shot": ({"prompt": "a", "target": "b"},)},
                {"sampling": {"temperature": 0}},
            )
        ),
    ],
)
def test_another_question_is_another_run(changed: Any) -> None:
    assert identity(changed, FILES) != identity(BASE, FILES)


def test_another_file_is_another_run() -> None:
    assert identity(BASE, [FILES[0].model_copy(update={"sha256": "b" * 64})]) != identity(BASE, FILES)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(BASE, same_model_at=("http://b",)), id="the same model elsewhere"),
        pytest.param(replace(BASE, api_key_env="KEY"), id="key"),
        pytest.param(replace(BASE, rubrics=(RubricSpec("exact-match"),)), id="rubrics"),
        pytest.param(replace(BASE, limits=Limits(concurrency=3, max_cost=1)), id="limits"),
        pytest.param(replace(BASE, policy="Abort"), id="policy"),
        pytest.param(
            replace(BASE, source=replace(BASE.source, location="/elsewhere/q.csv")), id="name of the file"
        ),
        pytest.param(replace(BASE, prompt=PromptSpec(template_name="t.j2")), id="name of the template"),
    ],
)
def test_how_it_is_asked_does_not_matter(changed: RunRequest) -> None:
    assert identity(changed, FILES) == identity(BASE, FILES)


def test_a_request_survives_its_document() -> None:
    request = replace(
        BASE,
        rubrics=(RubricSpec("exact-match?target=x"),),
        prompt=PromptSpec(few_shot=({"prompt": "a", "target": "b"},), sampling={"stop": ["x"]}),
        limits=Limits(prices=PriceSpec(1, 2.5), max_cost=3),
        group_by=("topic",),
    )
    assert from_document(to_document(request), "run.yaml") == request


@pytest.mark.parametrize(
    "change", [{"modl": "m"}, {"source": {"location": "x", "limt": 1}}, {"replications": "many"}]
)
def test_a_fault_in_a_document_names_file_and_field(change: dict[str, Any]) -> None:
    (name,) = change
    with pytest.raises(UsageError, match=f"run.yaml, {name}"):
        from_document({**to_document(BASE), **change}, "run.yaml")


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("replications", 0),
        ("source.limit", -1),
        ("source.limit", 2**63),
        ("limits.timeout", 2.0**31),
        ("limits.retries", 2**31),
        ("source.sample", -1),
        ("source.seed", -1),
        ("prompt.max_length", 0),
        ("limits.concurrency", 0),
        ("limits.timeout", math.nan),
        ("limits.timeout", math.inf),
        ("limits.wait_for_server", math.nan),
        ("limits.retries", -1),
        ("limits.max_tokens_total", 0),
        ("limits.max_cost", -1.0),
        ("limits.prices", {"prompt": math.nan, "completion": 1}),
        ("limits.max_time", math.nan),
        ("limits.max_stops", -1),
        ("judges", [{"model": "m"}, {"model": "m", "prices": {"prompt": -1, "completion": 1}}]),
    ],
)
def test_a_number_that_no_option_would_take_is_refused(where: str, value: Any) -> None:
    document = to_document(BASE)
    *parts, last = where.split(".")
    place = document
    for part in parts:
        place = place[part]
    place[last] = value
    with pytest.raises(UsageError, match=f"^run.yaml, {where}[a-z.]*: should be a number from"):
        from_document(document, "run.yaml")


@pytest.mark.parametrize(
    ("location", "stem"),
    [("a/b.c.parquet", "b"), ("p.jsonl", "p"), ("hf:org/name@train", "name"), ("hf:name", "name")],
)
def test_a_folder_is_named_after_its_prompts(location: str, stem: str) -> None:
    assert SourceSpec(location).stem == stem


def test_the_command_and_the_platform_wait_equally_long_for_an_answer() -> None:
    """Thirty seconds are too few for the long answers of a model that thinks."""
    assert Limits().timeout == EvaluationClientConfiguration().requestTimeoutSeconds == 600
    assert TaskLimits.model_fields["timeout"].default == 600


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            b"\xff\xfe",
            "is not YAML: it is not text in UTF-8: invalid start byte at byte 0. Put it back, or move",
        ),
        (
            b"source:\n  location: 'p.js",
            "is not YAML: line 2, column 18: while scanning a quoted scalar found",
        ),
        (
            b"a: \x00",
            "is not YAML: unacceptable character #x0000: control characters are not allowed. Put it",
        ),
        (b"", "should be an object, and is null. Put it back"),
        (b"- true", "should be an object, and is [true]. Put it back"),
        (b"source: 1", ", source: should be an object, and is 1; model: is missing; urls: is missing"),
        (b"colour: red", "colour: is not a field here, with the value 'red'"),
        (b"rubrics: exact-match", "rubrics: should be a list"),
        (b"rubrics: 5", "rubrics: should be a list"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(tmp_path: Path, content: bytes, fault: str) -> None:
    folder = RunFolder(tmp_path)
    folder.file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        folder.request()
    said = str(caught.value)
    assert said.startswith(str(folder.file))
    assert fault in said
    assert "\n" not in said
