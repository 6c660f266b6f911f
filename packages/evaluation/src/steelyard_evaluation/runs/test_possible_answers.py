"""Rows to which no answer could be right are refused before the answers are paid for, or have no number."""

from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import orjson
import pytest

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.runs.asked_rows import check_asked_rows
from steelyard_evaluation.runs.context import RunContext
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.possible_answers import list_choices
from steelyard_evaluation.runs.request import PromptSpec, RubricSpec
from steelyard_evaluation.runs.resolve import resolve
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.runs.scores import check_rubrics
from steelyard_schema.rubric_names import GROUP

MOODS = [{"prompt": f"Text {number}", "target": ("neg", "pos")[number % 2]} for number in range(8)]


def no_key() -> RunContext:
    return RunContext(environment={})


@pytest.mark.parametrize(
    "sampling", [{"guided_choice": ["0", "1"]}, {"structured_outputs": {"choice": ["0", "1"]}}], ids=str
)
async def test_choices_of_which_none_is_a_target_are_refused_before_the_first_call(
    tmp_path: Path, sampling: dict[str, JsonValue]
) -> None:
    prompts = write_prompts(tmp_path / "prompts.parquet", MOODS)
    async with endpoint() as server:
        request = make_request(
            prompts, server.url, rubrics=(RubricSpec("exact-match"),), prompt=PromptSpec(sampling=sampling)
        )
        with pytest.raises(UsageError, match="asked for one of 0, 1, and the targets are neg, pos"):
            await run(request, tmp_path / "run", no_key())
    assert server.bodies == []


WITHOUT_TARGET: dict[str, JsonValue] = {"target": []}
UNUSABLE: dict[str, list[tuple[str, dict[str, JsonValue], str]]] = {
    "choice.MultipleChoice": [
        (
            "",
            {"target": "E", "choices": ["x", "y"]},
            "the target 'E', which is not one of its choices: 'x', 'y'",
        ),
        ("", {"target": "2", "choices": ["x", "y"]}, "the target '2', which is not one of its choices"),
        (
            "",
            {"target": "A", "choices": "x, y"},
            "the options 'x, y' in the column 'choices', which are not a list",
        ),
        ("?choices=options", {"target": "A", "options": 4}, "the options 4 in the column 'options', which"),
        ("?most=2", {"target": "C"}, "the target 'C', which is not one of its choices: A to B"),
    ],
    "classification.Classification": [
        ("?target=target&field=text", {"target": None}, "has no target"),
        ("?target=target&field=text", {"target": ["a", "b"]}, "has several labels"),
    ],
    "judge.Verdict": [("", WITHOUT_TARGET, "has no target")],
    "lm_eval.Task": [],  # whose rows are lm-eval's own
    "numeric.Close": [
        ("", {"target": "none"}, "the target 'none', which holds no number"),
        ("", {"target": "3 or 4"}, "the target '3 or 4', which is not one number"),
        ("", WITHOUT_TARGET, "has no target"),
    ],
    "overlap.Bleu": [("", WITHOUT_TARGET, "has no target")],
    "overlap.ChrF": [("", WITHOUT_TARGET, "has no target")],
    "overlap.Rouge": [("", WITHOUT_TARGET, "has no target")],
    "structure.JsonSchema": [
        ("", {"schema": None}, "has no schema in the column 'schema'"),
        ("", {"schema": "{"}, "the schema is not JSON"),
        ("?column=form", {"form": {"type": "nothing"}}, "the schema is not usable"),
    ],
    "text.Contains": [("", WITHOUT_TARGET, "has no target")],
    "text.ExactMatch": [("", WITHOUT_TARGET, "has no target")],
    "text.NormalisedMatch": [("", WITHOUT_TARGET, "has no target")],
    "text.Regex": [("?pattern=(a)&group=1", WITHOUT_TARGET, "has no target")],
    "text.TokenF1": [("", WITHOUT_TARGET, "has no target")],
}
"""Rows that no answer could mend: of each rubric its arguments, the row, and the message."""


def test_unusable_rows_of_every_rubric_are_known() -> None:
    ours = (point for point in entry_points(group=GROUP) if point.value.startswith("steelyard_evaluation."))
    assert {point.name for point in ours} == UNUSABLE.keys()


@pytest.mark.parametrize(
    ("rubric", "row", "fault"),
    [(name + query, row, fault) for name, cases in UNUSABLE.items() for query, row, fault in cases],
)
def test_a_row_that_no_answer_could_mend_is_refused_before_the_first_call(
    tmp_path: Path, rubric: str, row: dict[str, JsonValue], fault: str
) -> None:
    usable = {
        "target": "1" if rubric.startswith("numeric") else "A",
        "choices": ["x", "y"] if "?most" not in rubric else None,
        "options": ["x", "y"],
        "schema": "{}",
        "form": "{}",
    }
    rows: list[dict[str, JsonValue]] = [{"prompt": "a", **usable}, {"prompt": "b", **usable, **row}]
    (tmp_path / "prompts.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    spec = (RubricSpec(rubric),)
    request = make_request(tmp_path / "prompts.jsonl", "http://127.0.0.1:1/v1", rubrics=spec)
    with pytest.raises(UsageError, match=rf"^--rubric .*: row 1 .*{fault}"):
        check_asked_rows(resolve(request, tmp_path / "run"))


async def test_choices_of_which_one_is_a_target_are_asked(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "prompts.parquet", MOODS)
    async with endpoint(lambda prompt: "pos") as server:
        request = make_request(
            prompts,
            server.url,
            rubrics=(RubricSpec("exact-match"),),
            prompt=PromptSpec(sampling={"guided_choice": ["pos", "other"]}),
        )
        result = await run(request, tmp_path / "run", no_key())
    assert "50" in dict(result.headlines)["exact-match"]


async def test_answers_that_have_nothing_in_common_with_the_targets_have_no_report(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "prompts.parquet", MOODS)
    async with endpoint(lambda prompt: prompt[-1]) as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("exact-match"),))
        with pytest.raises(
            ReportFailed, match=r"words: neg, pos.*numbers: 0, 1, 2, 3, ….*no value in common"
        ):
            await run(request, tmp_path / "run", no_key())
    folder = RunFolder(tmp_path / "run")
    assert folder.verified
    assert not folder.numbers.exists()


async def test_a_rubric_that_makes_no_report_leaves_the_earlier_one_as_it_was(tmp_path: Path) -> None:
    rows = [{**row, "number": number} for number, row in enumerate(MOODS)]
    prompts, folder = write_prompts(tmp_path / "prompts.parquet", rows), tmp_path / "run"
    async with endpoint(lambda prompt: "pos") as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("exact-match"),))
        result = await run(request, folder, no_key())
        before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
        wrong = replace(request, rubrics=(RubricSpec("classification?target=number&field=text"),))
        with pytest.raises(ReportFailed, match="no value in common"):
            await run(wrong, folder, no_key())
        assert before == {path: path.read_bytes() for path in before}
        assert (await run(request, folder, no_key())).headlines == result.headlines


def test_a_field_that_no_answer_has_is_refused(tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "prompts.parquet", MOODS)
    request = make_request(
        prompts, "http://127.0.0.1:1/v1", rubrics=(RubricSpec("classification?target=target"),)
    )
    with pytest.raises(UsageError, match=r"the field 'label'.*classification\?target=target&field=text"):
        check_rubrics(request, ["prompt", "target"])


@pytest.mark.parametrize(
    "sampling",
    [{}, {"structured_outputs": {"json": {}}}, {"guided_choice": "a"}, {"guided_choice": []}],
    ids=str,
)
def test_other_parameters_restrict_no_answer(sampling: dict[str, JsonValue]) -> None:
    assert list_choices(sampling) == []
