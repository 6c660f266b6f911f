"""Runs of an endpoint on loopback compared with each other: tables and refusals."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from scipy.stats import binomtest

from steelyard_common.errors import UsageError
from steelyard_evaluation.report.comparison.runs import chance_sentence, make_headline, overview
from steelyard_evaluation.runs.compare import compare_runs, page
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.request import RubricSpec, SourceSpec
from steelyard_evaluation.runs.run import run

ROWS = [
    {"prompt": f"say {number} <b>", "target": str(number), "topic": "ab"[number % 2], "weight": number % 4}
    for number in range(20)
]
BOTH = (RubricSpec("exact-match"), RubricSpec("token-f1"))


async def make_run(folder: Path, prompts: Path, wrong: tuple[int, ...] = (), **changes: Any) -> None:
    """A run that says a word too much of these rows."""

    def answer(prompt: str) -> str:
        number = int(prompt.split()[1])
        return f"{number} <i>" if number in wrong else str(number)

    async with endpoint(answer) as server:
        await run(make_request(prompts, server.url, **({"rubrics": BOTH[:1]} | changes)), folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Path]]:
    """The folders of runs by their names."""
    folder = tmp_path_factory.mktemp("runs")
    prompts, others = folder / "p.parquet", folder / "others.parquet"
    write_prompts(prompts, ROWS)
    write_prompts(others, [{**row, "target": "1"} for row in ROWS])

    async def make() -> None:
        same = (RubricSpec("contains"), RubricSpec("text.ExactMatch"))
        part = SourceSpec(str(prompts), limit=8)
        await make_run(folder / "a", prompts, (1, 2, 3, 4, 5, 6, 7), rubrics=BOTH)
        await make_run(folder / "b", prompts, (7, 8), rubrics=BOTH, model="other")
        await make_run(folder / "part", prompts, (2, 3), source=part)
        await make_run(folder / "others", others)
        await make_run(folder / "contains", prompts, rubrics=same)
        await make_run(folder / "unscored", prompts, rubrics=())
        await make_run(folder / "clustered", prompts, tuple(range(0, 20, 2)), cluster_by="weight")

    asyncio.run(make())
    return lambda *names: [folder / name for name in names]


Made = Callable[..., list[Path]]


def test_two_runs_are_paired_row_by_row(made: Made) -> None:
    compared = compare_runs(made("a", "b"))
    comparison = compared.others[0].comparison
    assert (comparison.questions, comparison.not_compared, comparison.differ) == (20, 0, 7)
    assert (comparison.baseline.value, comparison.system.value) == (0.65, 0.9)
    assert comparison.p_value.p == pytest.approx(binomtest(1, 7).pvalue)
    assert {change.kind: change.indexes for change in comparison.changes} == {
        "worse": (8,),
        "better": (1, 2, 3, 4, 5, 6),
        "otherwise": (),
    }
    model, endpoint = compared.others[0].side.differs
    assert model == 'model "other" instead of "m"'
    assert endpoint.startswith("endpoint ")
    assert (compared.unit, compared.title, compared.rubric) == ("share", "Right", "exact-match")


def test_several_runs_are_corrected_for_their_number(made: Made) -> None:
    compared = compare_runs(made("a", "b", "part"))
    ps = [binomtest(1, 7).pvalue, binomtest(0, 5).pvalue]
    assert [other.comparison.p_value.p for other in compared.others] == pytest.approx(ps)
    assert [other.p_holm for other in compared.others] == pytest.approx([2 * min(ps), 2 * min(ps)])
    assert [side.letter for side in compared.sides] == ["A", "B", "C"]


def test_each_pair_has_a_baseline_of_its_own(made: Made) -> None:
    """The first run is right on 13 of all 20 rows, and on 1 of the 8 that `part` was asked."""
    table = overview(compare_runs(made("a", "b", "part")))
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    shown = [(row["Questions"], row["Right"], row["A on the same questions"]) for row in rows]
    assert shown == [("–", "–", "–"), ("20", "90.0 %", "65.0 %"), ("8", "75.0 %", "12.5 %")]
    alike = overview(compare_runs(made("a", "b")))
    assert alike.columns[2] == "Right"
    assert [row[2] for row in alike.rows] == ["65.0 %", "90.0 %"]


def test_a_part_of_the_rows_is_compared_on_what_both_were_asked(made: Made) -> None:
    comparison = compare_runs(made("b", "part")).others[0].comparison
    assert (comparison.questions, comparison.not_compared) == (8, 12)
    assert [change.indexes for change in comparison.changes[:2]] == [(2, 3), (7,)]


def test_settings_that_differ_are_said_without_the_files_of_the_rows(made: Made) -> None:
    """The files follow from the setting that is said already, such as a limit."""
    (part,) = compare_runs(made("b", "part")).others
    assert any(setting.startswith("limit ") for setting in part.side.differs)
    assert not any("sha256" in setting for setting in part.side.differs)


def test_of_several_runs_the_corrected_p_value_is_named(made: Made) -> None:
    for names, p in ((("a", "b"), "(p 0."), (("a", "b", "part"), "(p (Holm) 0.")):
        compared = compare_runs(made(*names))
        assert p in chance_sentence(compared, compared.others[0])


@pytest.mark.parametrize(
    ("ps", "words"),
    [
        ((0.3, 0.4), "Of 2 runs, none differs from A by more"),
        ((0.03, None), "Of 2 runs (1 of them could be tested), 1 differs from A by more"),
        ((None, None), "Whether 2 runs differ from A by chance alone is unknown."),
    ],
)
def test_runs_that_no_test_compares_are_not_said_to_be_alike(
    made: Made, ps: tuple[float | None, ...], words: str
) -> None:
    compared = compare_runs(made("a", "b", "part"))
    others = tuple(replace(other, p_holm=p) for other, p in zip(compared.others, ps, strict=True))
    assert make_headline(replace(compared, others=others)).startswith(words)


def test_other_data_are_refused(made: Made) -> None:
    with pytest.raises(
        UsageError, match=r"others: was asked other data than .*a: SHA-256 \w{12}…, and \w{12}… of"
    ):
        compare_runs(made("a", "others"))


def test_other_rubrics_are_refused_and_the_same_in_other_words_are_not(made: Made) -> None:
    assert compare_runs(made("a", "contains")).rubric == "exact-match"
    with pytest.raises(
        UsageError, match=r"a: was scored by exact-match, token-f1, not by contains; .*contains was"
    ):
        compare_runs(made("contains", "a"))
    with pytest.raises(
        UsageError, match=r"Score it again: steelyard eval score .*contains --rubric 'token-f1'"
    ):
        compare_runs(made("a", "contains"), rubric="token-f1")


@pytest.mark.parametrize(
    ("names", "column", "fault"),
    [
        (["a"], None, "should be two folders of runs at least"),
        (["a", "b", "b"], None, "b: is named twice"),
        (["unscored", "a"], None, "unscored: has no scores yet: steelyard eval score"),
        (["a", "none"], None, r"there is no run\.yaml in it"),
        (
            ["a", "b"],
            "colour",
            r"--cluster-by colour: .* no such column; it has prompt, target, topic, weight",
        ),
    ],
)
def test_what_cannot_be_compared_is_said(
    made: Made, names: list[str], column: str | None, fault: str
) -> None:
    with pytest.raises(UsageError, match=fault):
        compare_runs(made(*names), cluster_by=column)


def test_rows_that_hang_together_count_as_one(made: Made) -> None:
    compared = compare_runs(made("b", "clustered"), cluster_by="topic")
    assert (compared.cluster, compared.others[0].comparison.clusters) == ("topic", 2)
    as_scored = compare_runs(made("clustered", "b"))
    assert (as_scored.cluster, as_scored.others[0].comparison.clusters) == ("weight", 4)
    assert as_scored.others[0].comparison.p_value.method.endswith("(3 clusters differ)")
    assert as_scored.others[0].comparison.p_value.p == pytest.approx(0.5)
    assert compare_runs(made("b", "clustered")).others[0].comparison.clusters is None


def test_mean_scores_are_compared_as_numbers(made: Made) -> None:
    first, second = made("a", "b")
    compared = compare_runs([first, second], rubric="token-f1")
    comparison = compared.others[0].comparison
    assert (compared.title, compared.unit, comparison.binary) == ("Token F1", "share", False)
    assert comparison.difference.value == pytest.approx(5 * (1 / 3) / 20)
    assert comparison.p_value.method == "Gaffke's test of a mean on a scale (7 questions differ)"
    assert comparison.difference.method == "Gaffke (2005), paired by question (20 questions)"
    assert b"Comparison of runs" in page(compared, first)


@pytest.mark.parametrize("run", ["a", "b"])
def test_a_changed_manifest_is_named_and_no_file_that_is_whole(made: Made, tmp_path: Path, run: str) -> None:
    paths = [shutil.copytree(path, tmp_path / path.name) for path in made("a", "b")]
    path = tmp_path / run / "outputs/.steelyard/manifest.json"
    content = orjson.loads(path.read_bytes())
    for changed in (content | {"parts": []}, content | {"files": content["files"] * 2}):
        path.write_bytes(orjson.dumps(changed))
        with pytest.raises(UsageError, match=r"manifest.json: was changed: .* says report.json; score it"):
            compare_runs(paths)


@pytest.mark.parametrize("name", ["inputs/part-00000.parquet", "outputs/part-00000.parquet"])
@pytest.mark.parametrize("run", ["a", "b"])
def test_a_run_whose_files_were_changed_is_refused(made: Made, tmp_path: Path, run: str, name: str) -> None:
    paths = [shutil.copytree(path, tmp_path / path.name) for path in made("a", "b")]
    path = tmp_path / run / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(UsageError, match=f"{run}/{name}: was changed: .* says the manifest of the run"):
        compare_runs(paths)
