"""Faults of a command are reported before a call is paid for, and leave the folder as it was."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard_common.errors import UsageError
from steelyard_evaluation.runs.asked_rows import check_asked_rows
from steelyard_evaluation.runs.collect import check_request
from steelyard_evaluation.runs.context import RunContext, RunFailed
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.dry_run import count_calls
from steelyard_evaluation.runs.request import PromptSpec, RubricSpec, RunRequest
from steelyard_evaluation.runs.resolve import resolve
from steelyard_evaluation.runs.run import run

WRONG: dict[str, Callable[[Any], Any]] = {
    "--rubric verdict: .* --judge-model": lambda request: replace(request, rubrics=(RubricSpec("verdict"),)),
    "reads the column 'nope'": lambda request: replace(
        request, rubrics=(RubricSpec("exact-match?target=nope"),)
    ),
    "reducer 'nope'": lambda request: replace(
        request, rubrics=(RubricSpec("exact-match"),), reducers=("nope",)
    ),
    "source.limit: should be a number": lambda request: replace(
        request, source=replace(request.source, limit=2**63)
    ),
    "limits.timeout: should be a number": lambda request: replace(
        request, limits=replace(request.limits, timeout=2.0**31)
    ),
    "--param: .*64-bit": lambda request: replace(
        request, prompt=replace(request.prompt, sampling={"max_tokens": 2**64})
    ),
}


@pytest.mark.parametrize("fault", WRONG)
async def test_a_finished_run_keeps_its_request_when_a_rubric_cannot_score_it(
    tmp_path: Path, fault: str
) -> None:
    folder = tmp_path / "run"
    async with endpoint() as server:
        request = make_request(write_prompts(tmp_path / "p.parquet"), server.url)
        await run(request, folder)
        before = (folder / "run.yaml").read_text()
        with pytest.raises(UsageError, match=fault):
            await run(WRONG[fault](request), folder)
    assert (folder / "run.yaml").read_text() == before


async def test_a_rubric_of_verdicts_without_a_judge_costs_nothing(tmp_path: Path) -> None:
    async with endpoint() as server:
        request = make_request(write_prompts(tmp_path / "p.parquet"), server.url)
        with pytest.raises(UsageError, match="--judge-model"):
            await run(replace(request, rubrics=(RubricSpec("verdict"),)), tmp_path / "run")
    assert not server.bodies


async def test_a_host_that_there_is_not_is_reported_and_not_waited_for(tmp_path: Path) -> None:
    request = make_request(write_prompts(tmp_path / "p.parquet"), "http://nobody.invalid/v1")
    with pytest.raises(RunFailed, match=r"nobody.invalid/v1: no such host is known"):
        await run(request, tmp_path / "run")


async def test_a_key_that_was_named_has_to_be_set_while_there_are_calls_to_make(tmp_path: Path) -> None:
    async with endpoint() as server:
        request = make_request(write_prompts(tmp_path / "p.parquet"), server.url, api_key_env="MY_KEY")
        with pytest.raises(UsageError, match="--api-key-env MY_KEY: is not set"):
            await run(request, tmp_path / "run", RunContext(environment={}))
        await run(request, tmp_path / "run", RunContext(environment={"MY_KEY": "k"}))
        assert (await run(request, tmp_path / "run", RunContext(environment={}))).resumed == 20


async def test_a_file_is_no_folder_for_a_run(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    with pytest.raises(UsageError, match=r"--output .*p\.parquet: is a file"):
        await run(make_request(prompts, "http://127.0.0.1:1/v1"), prompts)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("p.jsonl", b"", "has no rows to ask"),
        ("p.csv", b"prompt\n", "has no rows to ask"),
        ("p.csv", "prompt\ncafé\n".encode("latin-1"), "is not UTF-8; it looks like Latin-1"),
    ],
)
async def test_a_file_without_rows_or_without_text_says_so(
    tmp_path: Path, name: str, content: bytes, fault: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=fault):
        await run(make_request(tmp_path / name, "http://127.0.0.1:1/v1"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


LETTERS = [f"option {number}" for number in range(27)]
SHOTS = ({"prompt": "say 1", "target": "1"}, {"prompt": "never asked", "target": "2"})
CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "a rubric's name": (
        [{"prompt": "a", "target": "1"}],
        {"rubrics": "exact-macht"},
        "did you mean exact-match",
    ),
    "a rubric's name in capitals": (
        [{"prompt": "a", "target": "1"}],
        {"rubrics": "Exact_Match"},
        "did you mean exact-match",
    ),
    "a column": ([{"prompt": "a", "truth": "1"}], {"rubrics": "exact-match"}, "reads the column"),
    "a named column": (
        [{"prompt": "a", "target": "1"}],
        {"rubrics": "exact-match?target=x"},
        "reads the column 'x'",
    ),
    "targets": (
        [{"prompt": "a", "target": ""}, {"prompt": "b", "target": ""}],
        {"rubrics": "exact-match"},
        "the column 'target' .* is empty in every row",
    ),
    "no target in a row": (
        [{"prompt": "a", "target": 4}, {"prompt": "b", "target": None}],
        {"rubrics": "exact-match"},
        r"--rubric exact-match: row 1 of the dataset has no target in the column 'target' \(nor 'answer', nor",
    ),
    "no target in a list": (
        [{"_index_": 7, "prompt": "a", "answer": ["4"]}, {"_index_": 9, "prompt": "b", "answer": []}],
        {"rubrics": "token-f1?target=answer"},
        r"row 9 of the dataset has no target in the column 'answer'$",
    ),
    "no label in a row": (
        [{"prompt": "a", "label": "x"}, {"prompt": "b", "label": None}],
        {"rubrics": "classification?field=text"},
        "row 1 of the dataset has no label",
    ),
    "more options than letters": (
        [
            {"prompt": "a", "target": "A", "choices": ["x", "y"]},
            {"prompt": "b", "target": "A", "choices": LETTERS},
        ],
        {"rubrics": "multiple-choice"},
        "row 1 has 27 options in the column 'choices'; there are letters for 26",
    ),
    "more options than letters, with labels": (
        [{"prompt": "a", "target": "A", "choices": {"text": LETTERS, "label": LETTERS}}],
        {"rubrics": "multiple-choice"},
        "row 0 has 27 options",
    ),
    "an index that stands twice": (
        [{"_index_": 7, "prompt": "a"}, {"_index_": 8, "prompt": "b"}, {"_index_": 7, "prompt": "c"}],
        {},
        "two rows have the _index_ 7",
    ),
    "a negative index": (
        [{"_index_": 0, "prompt": "a"}, {"_index_": -1, "prompt": "b"}],
        {},
        "_index_ must hold a whole number from 0 in every row, not -1",
    ),
    "an index that is a fraction": ([{"_index_": 1.5, "prompt": "a"}], {}, "from 0 in every row, not 1.5"),
    "an index that is a text": ([{"_index_": "x7", "prompt": "a"}], {}, "from 0 in every row, not x7"),
    "an index that is true": ([{"_index_": True, "prompt": "a"}], {}, "from 0 in every row, not true"),
    "no index in a row": ([{"_index_": 1, "prompt": "a"}, {"prompt": "b"}], {}, "in every row; one is empty"),
    "a target with a blank": (
        [{"prompt": "a", " target": "1"}],
        {"rubrics": "exact-match"},
        r"it has prompt,  target; did you mean ' target'\? Rename one \(",
    ),
    "an answer with a capital": (
        [{"prompt": "a", "Answer": "1"}],
        {"rubrics": "exact-match"},
        r"'target' \(nor 'answer', nor 'label'\).*; did you mean 'Answer'\?",
    ),
    "a prompt that is misspelt": ([{"promt": "a"}], {}, r"no column 'prompt'; .*did you mean 'promt'\? \w"),
    "prompts that are empty": (
        [{"prompt": None, "target": "1"}, {"prompt": None, "target": "1"}],
        {},
        "none of the first 2 rows can be asked: the column 'prompt' is empty",
    ),
    "bytes in a template": (
        [{"prompt": b"a"}],
        {"template": "Say\n{{ prompt }}"},
        r"template, line 2: the column 'prompt' of .* is of type binary; bytes have no text",
    ),
    "bytes within a value in a template": (
        [{"image": {"bytes": b"a"}}],
        {"template": "{{ image.bytes }}"},
        "none of the first 1 rows can be asked: template, line 1: bytes have no text",
    ),
}


async def estimate(request: RunRequest, folder: Path) -> None:
    """Check what `--dry-run` checks."""
    resolved = resolve(request, folder)
    await check_request(resolved)
    check_asked_rows(resolved)
    await asyncio.to_thread(count_calls, resolved)


@pytest.mark.parametrize("dry", [False, True], ids=["a run", "an estimate"])
@pytest.mark.parametrize("name", CASES)
async def test_what_the_file_shows_is_known_before_the_first_call(
    tmp_path: Path, name: str, dry: bool
) -> None:
    rows, changes, fault = CASES[name]
    rubrics = tuple(map(RubricSpec, filter(None, [changes.get("rubrics")])))
    prompts = write_prompts(tmp_path / "p.parquet", rows)
    async with endpoint() as server:
        prompt = PromptSpec(template=changes.get("template"))
        request = make_request(prompts, server.url, rubrics=rubrics, prompt=prompt)
        with pytest.raises(UsageError, match=fault):
            await (estimate(request, tmp_path / "run") if dry else run(request, tmp_path / "run"))
    assert not server.bodies
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("missing", "rubric", "limit", "fault"),
    [
        (None, "verdict", None, None),
        ([], "verdict", None, "row 1 of the dataset has no target"),
        (None, "regex?pattern=a", None, None),
        (None, "regex?pattern=(a)&group=1", None, "row 1 of the dataset has no target"),
        ({"text": []}, "contains", None, "row 1 of the dataset has no target"),
        (None, "contains", 1, None),
    ],
)
def test_a_row_without_a_target_is_refused_where_it_is_asked_and_its_rubric_needs_one(
    tmp_path: Path, missing: Any, rubric: str, limit: int | None, fault: str | None
) -> None:
    there = {"text": ["4"]} if isinstance(missing, dict) else ["4"]
    prompts = write_prompts(
        tmp_path / "p.parquet", [{"prompt": "a", "target": there}, {"prompt": "b", "target": missing}]
    )
    request = make_request(prompts, "http://127.0.0.1:1/v1", rubrics=(RubricSpec(rubric),))
    request = replace(request, source=replace(request.source, limit=limit))
    resolved = resolve(request, tmp_path / "run")
    if fault is None:
        assert check_asked_rows(resolved) == ()
    else:
        with pytest.raises(UsageError, match=fault):
            check_asked_rows(resolved)


@pytest.mark.parametrize("template", [None, "Please {{ prompt }}."])
async def test_examples_that_are_also_asked_are_named(tmp_path: Path, template: str | None) -> None:
    prompts = write_prompts(tmp_path / "p.parquet")
    prompt = PromptSpec(few_shot=SHOTS, template=template)
    resolved = resolve(make_request(prompts, "http://127.0.0.1:1/v1", prompt=prompt), tmp_path / "run")
    assert check_asked_rows(resolved) == ("row 1 is asked, and shown with its answer before each prompt",)
    other = PromptSpec(few_shot=SHOTS[1:], template=template)
    assert check_asked_rows(replace(resolved, request=replace(resolved.request, prompt=other))) == ()
