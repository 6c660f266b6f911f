"""Templates, few-shot rows and system prompts as the requests that they become; faults name the line and the column."""

from typing import Any

import orjson
import pytest

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.plan import BadInput
from steelyard_evaluation.runs.prompts.render import check_rows, requests
from steelyard_evaluation.runs.prompts.template import Template, TemplateFault
from steelyard_evaluation.runs.request import PromptSpec

COLUMNS = ("prompt", "question", "choices")


def body(spec: PromptSpec, row: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(requests(spec, "m", COLUMNS, "p.csv")(row))
    return body


def test_a_column_is_the_prompt() -> None:
    assert body(PromptSpec(), {"prompt": "a"}) == {
        "model": "m",
        "messages": [{"role": "user", "content": "a"}],
    }


@pytest.mark.parametrize(("prompt", "text"), [(7, "7"), (1.0, "1.0"), (True, "true")])
def test_a_prompt_that_is_a_number_is_asked_as_its_file_writes_it(prompt: JsonValue, text: str) -> None:
    assert body(PromptSpec(), {"prompt": prompt})["messages"][0]["content"] == text


def test_system_and_few_shot_rows_stand_before_the_prompt() -> None:
    spec = PromptSpec(
        template="Q: {{ question }}",
        system="Be brief.",
        few_shot=({"question": "1+1", "target": 2},),
        sampling={"temperature": 0},
    )
    assert body(spec, {"question": "2+2"}) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Q: 1+1"},
            {"role": "assistant", "content": "2"},
            {"role": "user", "content": "Q: 2+2"},
        ],
        "temperature": 0,
    }


@pytest.mark.parametrize(("answer", "text"), [(True, "true"), (2.0, "2"), (["a"], '["a"]')])
def test_answers_of_few_shot_rows_are_written_as_targets_are(answer: JsonValue, text: str) -> None:
    """The model is shown the text that a rubric would take for the value."""
    messages = body(PromptSpec(few_shot=({"prompt": "a", "target": answer},)), {"prompt": "b"})["messages"]
    assert messages[1] == {"role": "assistant", "content": text}


def test_completions_get_the_same_as_one_text() -> None:
    spec = PromptSpec(api="completions", system="Sums.", few_shot=({"prompt": "1+1=", "answer": "2"},))
    assert body(spec, {"prompt": "2+2="}) == {"model": "m", "prompt": "Sums.\n\n1+1= 2\n\n2+2="}


def test_a_few_shot_row_without_the_column_says_what_it_has() -> None:
    spec = PromptSpec(few_shot=({"q": "1+1", "answer": "2"},))
    with pytest.raises(UsageError, match="few-shot row 1: has no column 'prompt'; it has q, answer"):
        requests(spec, "m", COLUMNS, "p.csv")


def test_a_list_of_messages_is_sent_as_it_is() -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert body(PromptSpec(), {"prompt": messages})["messages"] == messages


@pytest.mark.parametrize("row", [{"prompt": None}, {"prompt": []}])
def test_a_row_without_a_prompt_is_its_own_fault(row: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        requests(PromptSpec(), "m", COLUMNS, "p.csv")(row)


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (PromptSpec(column="text"), "p.csv: has no column 'text'; it has prompt, question, choices"),
        (
            PromptSpec(template="a\n{{ nope }}", template_name="t.j2"),
            "t.j2, line 2: p.csv has no column 'nope'",
        ),
        (PromptSpec(template="a\n{% for %}", template_name="t.j2"), "t.j2, line 2"),
        (PromptSpec(template="\n{{ nope }}", template_name="t.yaml", template_line=10), "t.yaml, line 11"),
        (PromptSpec(few_shot=({"prompt": "a"},)), "few-shot row 1: has no answer"),
        (PromptSpec(few_shot=({"target": "a"},)), "few-shot row 1"),
        (PromptSpec(sampling={"messages": []}), "messages is not a sampling parameter"),
    ],
)
def test_what_no_row_can_be_asked_with_is_reported_at_once(spec: PromptSpec, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        requests(spec, "m", COLUMNS, "p.csv")


def test_a_fault_of_a_row_names_the_line() -> None:
    template = Template("first\n{{ choices[3].text }}\n", "t.j2")
    assert template({"choices": [0, 0, 0, {"text": "d"}]}) == "first\nd"
    with pytest.raises(TemplateFault, match=r"t.j2, line 2: .*has no element 3"):
        template({"choices": []})


def test_columns_that_are_asked_after_may_be_missing() -> None:
    text = "{% if hint is defined %}{{ hint }}{% endif %}{{ topic | default('any') }}"
    text += (
        "{% for x in choices %}{{ loop.index }}{{ x }}{% endfor %}{% set y = 1 %}{{ y }}{{ range(2) | list }}"
    )
    template = Template(text)
    template.check(COLUMNS, "p.csv")
    assert template({"choices": ["a"]}) == "any1a1[0, 1]"


@pytest.mark.parametrize(
    "text", ["{{ ''.__class__.__mro__ }}", "{{ choices.append(1) }}", "{{ range(10**9) }}"]
)
def test_a_template_cannot_leave_its_sandbox(text: str) -> None:
    with pytest.raises(TemplateFault):
        Template(text)({"choices": []})


def test_a_run_none_of_whose_first_rows_can_be_asked_is_wrong_itself() -> None:
    request = requests(PromptSpec(template="{{ prompt.text }}"), "m", COLUMNS, "p.csv")
    with pytest.raises(UsageError, match="none of the first 2 rows"):
        check_rows(request, [{"prompt": "a"}, {"prompt": "b"}], "p.csv")
    check_rows(request, [{"prompt": "a"}, {"prompt": {"text": "b"}}], "p.csv")
