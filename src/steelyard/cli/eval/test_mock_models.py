"""Models of the mock endpoint: how often each is right, and how its judges decide."""

from functools import cache

import pytest

from steelyard.cli.eval.mock_models import MISJUDGED_SHARE, RIGHT_SHARES, MockModels
from steelyard_evaluation.runs.judge.spec import PAIR_TEMPLATE, TEMPLATE
from steelyard_evaluation.runs.prompts.template import Template

SUMS = [(a, b) for a in range(10, 50) for b in range(10, 60)]


def ask(models: MockModels, model: str, prompt: str, **body: object) -> str:
    return models({"model": model, **body}, prompt) or ""


@pytest.mark.parametrize("model", [*RIGHT_SHARES])
def test_each_model_gets_its_share_of_sums_right(model: str) -> None:
    models = MockModels()
    answers = [ask(models, model, f"user: What is {a} + {b}?") for a, b in SUMS]
    right = [str(a + b) in answer for (a, b), answer in zip(SUMS, answers, strict=True)]
    assert sum(right) / len(right) == pytest.approx(RIGHT_SHARES[model], abs=0.03)


def test_asked_again_a_model_may_answer_otherwise_unless_its_temperature_is_0() -> None:
    models = MockModels()
    assert len({ask(models, "small", "What is 2 + 2?") for _ in range(20)}) > 1
    assert len({ask(models, "small", "What is 2 + 2?", temperature=0) for _ in range(20)}) == 1


def test_other_prompts_are_left_to_random_words() -> None:
    assert MockModels()({"model": "small"}, "Who was Euclid?") is None


def judged(template: str, grades: str, reference: str, **answers: str) -> str:
    """The judge's prompt."""
    sum_of = {"question": "What is 2 + 2?", "target": reference, "criteria": "Be right.", "grades": grades}
    return str(_compiled(template)({**sum_of, **answers}))


@cache
def _compiled(template: str) -> Template:
    return Template(template, "judge")


def verdicts(prompts: list[str]) -> list[str]:
    models = MockModels()
    return [ask(models, "judge", prompt, temperature=0).rpartition("VERDICT: ")[2] for prompt in prompts]


@pytest.mark.parametrize(("answer", "verdict"), [("It is {}.", "correct"), ("1 or 7", "incorrect")])
def test_a_judge_compares_the_number_with_the_reference_and_errs_seldom(answer: str, verdict: str) -> None:
    prompts = [
        judged(TEMPLATE, "correct or incorrect", str(n), response=answer.format(n)) for n in range(1000, 2000)
    ]
    answers = verdicts(prompts)
    assert 1 - 2 * MISJUDGED_SHARE < answers.count(verdict) / len(answers) < 1
    assert any(answer not in {"correct", "incorrect"} for answer in answers)  # some cannot be read


def test_a_judge_of_pairs_prefers_the_right_one() -> None:
    pairs = [judged(PAIR_TEMPLATE, "A, tie or B", str(n), first="3", second=f"{n}") for n in range(100, 200)]
    assert verdicts(pairs).count("B") > 80
