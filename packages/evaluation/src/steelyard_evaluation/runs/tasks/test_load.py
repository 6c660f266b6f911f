"""Task files as requests, and the messages about wrong ones."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_common.errors import UsageError
from steelyard_evaluation.report.rubrics import find_rubric
from steelyard_evaluation.report.rubrics.text import Regex
from steelyard_evaluation.runs.request import Limits, RubricSpec, SourceSpec
from steelyard_evaluation.runs.spending.prices import PriceSpec
from steelyard_evaluation.runs.tasks import load_task
from steelyard_evaluation.runs.tasks.positions import TextPosition, read


def write_task(folder: Path, text: str) -> Path:
    (folder / "rows.jsonl").write_text('{"question": "1 + 1", "answer": "2"}\n')
    path = folder / "task.yaml"
    path.write_text(text)
    return path


def faults(folder: Path, text: str) -> list[str]:
    """Return the faults, without the file's name."""
    path = write_task(folder, text)
    with pytest.raises(UsageError) as raised:
        load_task(path)
    lines = [line.removeprefix(f"{path}") for line in str(raised.value).splitlines()]
    return [line.removeprefix(":") for line in lines if not line.endswith(" faults")]


def test_a_whole_task_is_a_request(tmp_path: Path) -> None:
    path = write_task(
        tmp_path,
        """
data: {path: rows.jsonl, columns: {q: question}, limit: 5}
template: |
  Q: {{ q }}
  A:
system: Be brief.
target: answer
few_shot:
  - {q: 2 + 2, answer: 4}
sampling: {temperature: 0, top_k: 3}
api: completions
model: m
urls: [http://host:8000/v1/]
replications: 3
rubrics: [exact-match, {name: contains, ignore_case: true, target: other}]
reducers: [majority]
group_by: [kind]
limits: {concurrency: 8, timeout: 1m30s, max_cost: 2, prices: {prompt: 1, completion: 2.5}}
bad_rows: abort
""",
    )
    request = load_task(path)
    assert request.source == SourceSpec(str(tmp_path / "rows.jsonl"), None, {"q": "question"}, 5)
    assert (request.prompt.template, request.prompt.template_line) == ("Q: {{ q }}\nA:\n", 4)
    assert request.prompt.few_shot == ({"q": "2 + 2", "answer": 4},)
    assert request.prompt.sampling == {"temperature": 0, "top_k": 3}
    assert request.rubrics == (
        RubricSpec("exact-match?target=answer"),
        RubricSpec("contains?ignore_case=true&target=other"),
    )
    assert request.limits == Limits(8, 90.0, max_cost=2, prices=PriceSpec(1, 2.5))
    assert (request.prompt.api, request.urls, request.policy) == (
        "completions",
        ("http://host:8000/v1",),
        "Abort",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: is empty; it should say data, template, rubrics, …"),
        ("- 1\n", "1:1: should be an object of name: value"),
        ("data: {path: rows.jsonl\n", "2:1: is not YAML: while parsing a flow mapping"),
        ("template: x\n", "1:1: data: is missing: The source of the rows"),
        (
            "data: {path: rows.jsonl}\ntemplat: x\n",
            "2:1: templat: there is no such field; did you mean template?",
        ),
        ("data: {path: no.csv}\n", "1:14: data.path: 'no.csv': there is no such file in "),
        ("data: {path: rows.jsonl, hub: x}\n", "1:1: data: should have one of path and hub"),
        ("data:\n  path: rows.jsonl\n  limit: '5'\n", "3:10: data.limit: '5': should be a whole number"),
        ("data: {path: rows.jsonl}\nsystem: no\n", "2:9: system: False: should be text; put it in quotes"),
        ("data: {path: rows.jsonl}\nurls: [ftp://x]\n", "2:8: urls[0]: 'ftp://x': should be a base URL"),
        (
            "data: {path: rows.jsonl}\nurls: ['http://u:p@h']\n",
            "2:8: urls[0]: 'http://u:p@h': should be a base URL",
        ),
        ("data: {path: rows.jsonl}\ntemplate: |\n  a\n  {{ b\n", "4:1: template: "),
        (
            "data: {path: rows.jsonl}\nlimits: {timeout: soon}\n",
            "2:19: limits.timeout: 'soon': should be a time",
        ),
        (
            "data: {path: rows.jsonl}\nlimits: {timeout: .inf}\n",
            "2:19: limits.timeout: inf: should be more than",
        ),
        (
            f"data: {{path: rows.jsonl}}\nlimits: {{timeout: {10**400}}}\n",
            "2:19: limits.timeout: 1000",
        ),
        (
            "data: {path: rows.jsonl}\nlimits: {prices: {prompt: .inf, completion: 1}}\n",
            "2:27: limits.prices.prompt: inf: should be a finite number",
        ),
        ("data: {path: rows.jsonl}\nlimits: {max_cost: 1}\n", "2:10: limits.max_cost: needs limits.prices"),
        ("data: {path: rows.jsonl}\nbad_rows: keep\n", "2:11: bad_rows: 'keep': should be skip or abort"),
        (
            "data: {path: rows.jsonl}\nrubrics: [exact_mach]\n",
            "2:11: rubrics[0]: exact_mach: there is no such rubric",
        ),
        (
            "data: {path: rows.jsonl}\nsampling: {temprature: 1}\n",
            "2:12: sampling.temprature: there is no such para",
        ),
        (
            "data: {path: rows.jsonl}\nmodel: a\nmodel: b\n",
            "3:1: model: is given twice, first on line 2",
        ),
        ("data: &d {path: rows.jsonl}\nfew_shot: *d\n", "2:11: *d: aliases are not read here; write it out"),
        (
            "data: {path: rows.jsonl}\njudges: [{name: a, model: m, parse: x}]\n",
            "2:37: judges[0].parse: 'x': should",
        ),
        (
            "data: {path: rows.jsonl}\nfew_shot: no.jsonl\n",
            "2:11: few_shot: 'no.jsonl': there is no such file",
        ),
        ("data: {path: rows.jsonl}\nprompt: a\ntemplate: b\n", "2:1: prompt: there is a template already"),
    ],
)
def test_a_fault_has_line_column_field_value_and_what_is_allowed(
    tmp_path: Path, text: str, expected: str
) -> None:
    (said,) = faults(tmp_path, text)
    assert said.startswith(expected)


def test_all_faults_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """
data: {path: no.jsonl, limitt: 3}
template: "{{"
replications: 0
api: chatt
rubrics: [exakt-match]
limits:
  retries: -1
"""
    said = faults(tmp_path, text)
    assert [line.split(": ")[1] for line in said] == [
        "data.path",
        "data.limitt",
        "template",
        "replications",
        "api",
        "rubrics[0]",
        "limits.retries",
    ]


def test_a_few_shot_file_lies_next_to_the_task(tmp_path: Path) -> None:
    path = write_task(tmp_path, "data: {path: rows.jsonl}\nprompt: question\nfew_shot: shots.csv\n")
    (tmp_path / "shots.csv").write_text("question,answer\n2 + 2,4\n")
    request = load_task(path)
    assert request.prompt.few_shot == ({"question": "2 + 2", "answer": 4},)
    assert request.prompt.column == "question"


def test_a_dataset_of_the_hub_is_named_by_its_name(tmp_path: Path) -> None:
    path = write_task(tmp_path, "data: {hub: org/name/config@test}\nprompt: question\n")
    assert load_task(path).source.location == "hf:org/name/config@test"


def test_a_judge_asks_where_the_task_does_by_default(tmp_path: Path) -> None:
    path = write_task(
        tmp_path,
        "data: {path: rows.jsonl}\nprompt: question\nurls: [http://a/v1]\ntarget: answer\n"
        "judges: [{model: m, grades: {good: 1, bad: 0}}, {name: b, model: n, urls: [http://b/v1]}]\n",
    )
    first, second = load_task(path).judges
    assert (first.name, first.urls, first.target) == ("judge", ("http://a/v1",), "answer")
    assert first.grades == {"good": 1, "bad": 0}
    assert (second.name, second.urls) == ("b", ("http://b/v1",))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = "data", "template", "rubrics", "limits", "sampling", "judges", "few_shot", "urls", "kind", "targe"


@settings(max_examples=25, deadline=None)
@given(document=st.dictionaries(st.sampled_from(_FIELDS), _VALUES, max_size=6), data=st.booleans())
def test_any_content_of_a_task_is_a_request_or_a_fault(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any], data: bool
) -> None:
    folder = tmp_path_factory.getbasetemp()
    if data:
        document = {**document, "data": {"path": "rows.jsonl"}}
    path = write_task(folder, yaml.safe_dump(document, allow_unicode=True))
    with suppress(UsageError):
        load_task(path)


@settings(max_examples=25, deadline=None)
@given(document=st.dictionaries(st.text(min_size=1, max_size=6), _VALUES, max_size=4))
def test_every_value_has_the_place_where_it_stands(document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1)
    positions = read(text)
    assert positions.faults == ()
    for path, place in positions.keys.items():
        line = text.splitlines()[place.line - 1]
        assert line[place.column - 1 :].startswith(json.dumps(path[-1]))


def test_text_may_be_anything_but_that_is_reported() -> None:
    assert read("a: \x01").faults[0].message.startswith("is not YAML")
    assert read("a: [" * 5000).faults
    assert read("? [a]\n: b\n").faults or read("? [a]\n: b\n").data is None
    assert read("a: 2020-13-45").faults[0].place == TextPosition()


@pytest.mark.parametrize(
    ("rubric", "reference"),
    [
        ("{name: text.Regex, pattern: 'x+', group: 0}", "text.Regex?pattern=x%2B&group=0&target=answer"),
        ("'text.Regex?pattern=x+&group=0'", "text.Regex?pattern=x%2B&group=0&target=answer"),
    ],
    ids=["as an object", "as on the command line"],
)
def test_a_pattern_comes_to_its_rubric_as_it_was_written(tmp_path: Path, rubric: str, reference: str) -> None:
    path = write_task(tmp_path, f"data: {{path: rows.jsonl}}\ntarget: answer\nrubrics: [{rubric}]\n")
    assert load_task(path).rubrics == (RubricSpec(reference),)
    assert find_rubric(reference) == Regex("x+", 0, target="answer")
