"""One truth of a score: whatever was answered, failed, graded or not, every part of Steelyard says the same of each row
and of the whole.

A run is drawn at random, and what its page, `report.json`, `scores.parquet`, `show`, `compare`, `export`, an audit and
verification say is held against what follows from the answers alone.
"""

import asyncio
import html
import json
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from zlib import crc32

import pyarrow.parquet as pq
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.cli.eval import run_text
from steelyard_common.types import JsonValue
from steelyard_evaluation.report.audit.make import Request as AuditRequest
from steelyard_evaluation.report.audit.make import make_audit
from steelyard_evaluation.report.audit.subject import Subject
from steelyard_evaluation.report.evidence.files import ReportFolders
from steelyard_evaluation.report.evidence.recomputation import list_leaves
from steelyard_evaluation.report.evidence.verify import verify_report
from steelyard_evaluation.report.page.page import numbers_inside
from steelyard_evaluation.runs.compare import compare_runs
from steelyard_evaluation.runs.context import Interrupted, RunContext
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.export import export
from steelyard_evaluation.runs.folder import Run, RunFolder, open_run
from steelyard_evaluation.runs.judge.output import find_judged_output
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.queries import find_wrong_rows
from steelyard_evaluation.runs.request import Limits, RubricSpec
from steelyard_evaluation.runs.run import run

Key = tuple[int, str]
VERDICT = "judge.Verdict"
SHARES = ("exact-match", "token-f1", "contains", VERDICT)
"""Rubrics whose number is the mean of the rows' scores."""
GRADES = {"correct": 1.0, "incorrect": 0.0, "nothing": None}


@dataclass(frozen=True)
class Plan:
    """A run: the outcome of each asking of each row, the judges, and how all that is scored."""

    outcomes: tuple[tuple[str, ...], ...]
    seed: int
    rubrics: tuple[str, ...]
    judges: int
    reducers: tuple[str, ...]
    group: bool
    cluster: bool

    def grade(self, judge: str, said: str) -> str:
        """A judge's grade of an answer; the same answer gets the same grade."""
        return list(GRADES)[crc32(f"{self.seed} {judge} {said}".encode()) % len(GRADES)]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Runs of at most twelve rows, with every kind of trouble."""
    rows, times = draw(st.integers(2, 12)), draw(st.integers(1, 3))
    outcome = st.sampled_from(["right", "right", "wrong", "half", "refused"])
    outcomes = [draw(st.tuples(*[outcome] * times)) for _ in range(rows)]
    outcomes[0] = ("right", *outcomes[0][1:])  # where every row is refused there is nothing to score
    rubrics = draw(st.lists(st.sampled_from([*SHARES, "chr-f"]), min_size=1, max_size=3, unique=True))
    reducers = draw(
        st.lists(st.sampled_from(["mean", "majority", "best", "pass@1"]), unique=True, max_size=2)
    )
    judges = draw(st.integers(1, 2)) if VERDICT in rubrics else 0
    flags = draw(st.booleans()), draw(st.booleans())
    return Plan(tuple(outcomes), draw(st.integers(0, 999)), tuple(rubrics), judges, tuple(reducers), *flags)


def text_of(row: int, outcome: str, time: int) -> str:
    """An answer: the target, a part of it, or something else."""
    return {"right": f"the target {row}", "half": f"target {row} or so", "wrong": f"no {time} idea"}[outcome]


async def make_run(plan: Plan, folder: Path) -> Run:
    """The run, from the first call to its report."""
    waiting = {f"say {row}": list(enumerate(outcomes)) for row, outcomes in enumerate(plan.outcomes)}

    def answer(prompt: str) -> JsonValue:
        if "[Answer to grade]" in prompt:
            judge, _, said = prompt.partition(" [Answer to grade] ")
            return f"VERDICT: {plan.grade(judge, said)}"
        time, outcome = waiting[prompt].pop(0)
        row = int(prompt.removeprefix("say "))
        return web.Response(status=400, text="no") if outcome == "refused" else text_of(row, outcome, time)

    rows = [
        {
            "prompt": f"say {row}",
            "target": f"the target {row}",
            "kind": f"k{row % 3}",
            "document": f"d{row // 2}",
        }
        for row in range(len(plan.outcomes))
    ]
    judges = tuple(
        JudgeSpec("m", name=name, template=name + " [Answer to grade] {{ response }}")
        for name in ("first", "second")[: plan.judges]
    )
    async with endpoint(answer) as server:
        request = make_request(
            write_prompts(folder / "p.parquet", rows),
            server.url,
            replications=len(plan.outcomes[0]),
            rubrics=tuple(map(RubricSpec, plan.rubrics)),
            reducers=plan.reducers,
            group_by=("kind",) if plan.group else (),
            cluster_by="document" if plan.cluster else None,
        )
        await run(replace(request, judges=judges), folder / "run", RunContext(environment={}))
    return open_run(folder / "run")


@dataclass(frozen=True)
class Truth:
    """Each row's status by one rubric, and its score where the rubric's is known, as they follow from the answers."""

    status: Mapping[Key, str]
    score: Mapping[Key, float | None]

    @property
    def counts(self) -> dict[str, int]:
        counted = Counter(self.status.values())
        return {"scored": counted["scored"], "failed": counted["failed"], "leftOut": counted["left out"]}


def truth_of(plan: Plan, done: Run, rubric: str) -> Truth:
    """The truth by the verified answers and the plan alone."""
    status: dict[Key, str] = {}
    score: dict[Key, float | None] = {}
    for row in done.rows():
        key = row.index, done.manifest.replications[row.replication]
        if row.responses is None:
            status[key], score[key] = "failed", 0.0
            continue
        said = row.responses[0]["text"]
        if rubric == VERDICT:
            worth = GRADES[plan.grade("first", said)]
            status[key], score[key] = ("left out" if worth is None else "scored"), worth
        else:
            target = f"the target {row.index}"
            status[key] = "scored"
            score[key] = float(said == target if rubric == "exact-match" else target in said)
    return Truth(status, score)


def check_scores(plan: Plan, done: Run) -> dict[str, Truth]:
    """`scores.parquet` and its siblings, row by row, and `report.json` on the whole."""
    numbers = done.numbers or {}
    truths: dict[str, Truth] = {}
    parts = [{**numbers, "scores": "scores.parquet"}, *numbers["more"]]
    assert [part["rubric"] for part in parts] == list(plan.rubrics)
    for part in parts:
        rubric, truth = part["rubric"], truth_of(plan, done, part["rubric"])
        rows = pq.read_table(done.folder.path / part["scores"]).to_pylist(maps_as_pydicts="strict")
        by_key = {(row["_index_"], row["_replication_"]): row for row in rows}
        assert {key: row["status"] for key, row in by_key.items()} == truth.status
        assert part["counts"] == truth.counts
        assert sum(part["counts"].values()) == done.manifest.rows.present == len(rows)
        for key, row in by_key.items():
            if rubric in {"exact-match", "contains", VERDICT}:
                assert row["score"] == truth.score[key]
                assert row["correct"] is (None if truth.score[key] is None else truth.score[key] == 1)
        if rubric in SHARES:
            check_share(part, [row for row in rows if row["status"] != "left out"])
        wrong = {row["_index_"] for row in rows if row["status"] == "scored" and row["correct"] is False}
        assert part["failures"]["total"] == len(wrong)
        truths[rubric] = truth
    return truths


def check_share(part: JsonValue, counted: list[JsonValue]) -> None:
    """The number, its bounds and its groups: sums of scores over the rows that count."""
    lead = part["metrics"][0]
    if not counted:
        assert lead["value"] is None
        return
    value = fmean(row["score"] for row in counted)
    assert lead["value"] == pytest.approx(value)
    assert lead["n"] == len(counted)
    if part["counts"]["failed"]:
        more = part["counts"]["failed"] / len(counted)
        assert part["bounds"] == {
            "allFailedWrong": lead["value"],
            "allFailedRight": pytest.approx(value + more),
        }
    means = [fmean(row["score"] for row in rows) for rows in by_question(counted).values()]
    reduced = {metric["name"].rpartition("_")[2]: metric["value"] for metric in part["metrics"]}
    if "mean" in reduced:
        assert reduced["mean"] == pytest.approx(fmean(means))


def by_question(rows: list[JsonValue]) -> dict[int, list[JsonValue]]:
    """The rows of each question."""
    questions: dict[int, list[JsonValue]] = defaultdict(list)
    for row in rows:
        questions[row["_index_"]].append(row)
    return questions


def said(counts: Mapping[str, int]) -> str:
    """The counts as people read them."""
    return f"{counts['scored']} scored, {counts['failed']} failed, {counts['leftOut']} left out"


def check_page(done: Run, lead: Truth, truths: list[Truth]) -> None:
    """The page holds the same numbers, says the headline, and each row that it lets people search has its status."""
    page = done.folder.page.read_bytes()
    assert json.loads(numbers_inside(page) or b"") == done.numbers
    assert (done.numbers or {})["headline"] in html.unescape(page.decode())
    assert said(lead.counts) in page.decode()
    script = re.search(rb'<script type="application/json" id="rows-data">(.*?)</script>', page, re.S)
    assert script is not None
    rows = json.loads(script[1])
    for place, (index, replication) in enumerate(zip(rows["i"], rows["r"], strict=True)):
        key = index, done.manifest.replications[replication]
        assert [columns[4][place] for columns in rows["s"]] == [truth.status[key] for truth in truths]


def check_shown(done: Run, truth: Truth) -> None:
    """`show` has the headlines, the counts, the wrong answers and the status of a row."""
    summary = run_text.summary(done)
    for part in (done.numbers or {}, *(done.numbers or {})["more"]):
        assert part["headline"] in summary
        assert said(part["counts"]) in summary
    scores = pq.read_table(done.folder.scores).to_pylist(maps_as_pydicts="strict")
    wrong = {row["_index_"] for row in scores if row["status"] == "scored" and row["correct"] is False}
    rubric = (done.numbers or {})["rubric"]
    assert {row.index for row in find_wrong_rows(done, 99).first if rubric in row.wrong} == wrong
    (index, _), status = next(iter(truth.status.items()))
    words = ("right", "wrong") if status == "scored" else (status,)
    assert any(f"  {rubric}: {word}" in run_text.row(done, index) for word in words)


def check_exported(done: Run, truth: Truth) -> None:
    """`export` has every row once, with the status and score that the file of scores has."""
    path = done.folder.path.parent / "rows.jsonl"
    assert export(done, path) == len(truth.status)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    exported = {(row["index"], done.manifest.replications[row["replication"]]): row["scores"] for row in rows}
    assert {key: scores["status"] for key, scores in exported.items()} == truth.status
    for row in pq.read_table(done.folder.scores).to_pylist():
        assert exported[row["_index_"], row["_replication_"]]["score"] == row["score"]


def check_compared(done: Run, truth: Truth) -> None:
    """A comparison with a copy sees the same rows, and no difference."""
    rows = pq.read_table(done.folder.scores).to_pylist(maps_as_pydicts="strict")
    counted = by_question([row for row in rows if row["status"] != "left out"])
    if not counted:
        return
    copy = done.folder.path.with_name("copy")
    shutil.copytree(done.folder.path, copy)  # a run is not compared with itself
    (against,) = compare_runs([done.folder.path, copy]).others
    comparison = against.comparison
    assert comparison.baseline_rows.numbers() == comparison.system_rows.numbers() == truth.counts
    assert comparison.questions == len(counted)
    assert comparison.not_compared == len(by_question(rows)) - len(counted)
    assert comparison.difference.value == 0
    expected = fmean(fmean(row["score"] for row in answers) for answers in counted.values())
    assert comparison.baseline.value == comparison.system.value == pytest.approx(expected)


async def check_audited(done: Run, truth: Truth) -> None:
    """An audit of the report says its number and its counts."""
    service = (done.numbers or {})["names"]["inferenceService"]
    folder = done.folder.path.parent / "audit"
    folder.mkdir()
    subject = Subject("a" * 32, "account", "c" * 32, service)
    made = await make_audit(AuditRequest(subject, {"r" * 32: done.folder.root}), folder)
    (requirement,) = json.loads(made.numbers)["requirements"]
    lead = (done.numbers or {})["metrics"][0]
    audited = requirement["result"]["estimate"]
    assert (audited["value"], audited["low"], audited["high"]) == (lead["value"], lead["low"], lead["high"])
    assert requirement["counts"] == truth.counts
    if (done.numbers or {})["rubric"].startswith("chr-f"):
        assert "questions right" not in made.headline


async def check_verified(done: Run) -> None:
    """Verification computes every number again, and finds no fault."""
    folder, request = done.folder, done.request
    places = ReportFolders(
        report=folder.path,
        dataset=folder.path / "inputs",
        evaluation=find_judged_output(folder, request).root,
        errors=folder.path / "outputs",
        run=folder.path,
        page_name="report.html",
    )
    faults = [check.what async for check in verify_report(places) if check.state == "fault"]
    assert faults == []


async def one_truth(plan: Plan, folder: Path) -> None:
    """All parts of one run against what follows from its answers."""
    done = await make_run(plan, folder)
    truths = check_scores(plan, done)
    lead = truths[plan.rubrics[0]]
    check_page(done, lead, [truths[rubric] for rubric in plan.rubrics])
    check_shown(done, lead)
    check_exported(done, lead)
    check_compared(done, lead)
    await check_verified(done)
    await check_audited(done, lead)
    before = done.folder.numbers.read_bytes(), done.folder.page.read_bytes()
    await run(done.request, done.folder.path, RunContext(environment={}))  # asked the same twice
    assert before == (done.folder.numbers.read_bytes(), done.folder.page.read_bytes())
    assert RunFolder(done.folder.path).verified


def check_plan(plan: Plan) -> None:
    with tempfile.TemporaryDirectory(prefix="steelyard-truth-") as folder:
        asyncio.run(one_truth(plan, Path(folder)))


def by_prompt(prompt: str) -> JsonValue:
    """A model that answers each prompt the same at every time: right, wrong, or not at all."""
    row = int(prompt.removeprefix("say "))
    return (
        web.Response(status=400, text="no")
        if row % 7 == 5
        else text_of(row, ("right", "half", "wrong")[row % 3], 0)
    )


async def numbers_of(folder: Path, patience: list[int]) -> tuple[JsonValue, list[JsonValue]]:
    """The numbers and scores of a run that is stopped after so many answers, again and again, and then let through."""
    rows = [
        {"prompt": f"say {row}", "target": f"the target {row}", "kind": f"k{row % 2}"} for row in range(40)
    ]
    left = patience.copy()
    context = RunContext(environment={})

    def answer(prompt: str) -> JsonValue:
        if left:
            left[0] -= 1
            if left[0] <= 0:
                context.stop.set()
        return by_prompt(prompt)

    async with endpoint(answer) as server:
        request = make_request(
            write_prompts(folder / "p.parquet", rows),
            server.url,
            replications=2,
            rubrics=(RubricSpec("exact-match"), RubricSpec("chr-f")),
            reducers=("majority", "best"),
            group_by=("kind",),
            limits=Limits(concurrency=2),
        )
        while left:
            try:
                await run(request, folder / "run", context)
            except Interrupted:
                left.pop(0)
                context = RunContext(environment={})
            else:
                break
        await run(request, folder / "run", RunContext(environment={}))
    done = open_run(folder / "run")
    numbers = done.numbers or {}
    compared = {
        name: numbers[name] for name in ("headline", "counts", "bounds", "metrics", "groups", "power", "rows")
    }
    compared["more"] = [
        {name: part[name] for name in ("counts", "metrics", "groups")} for part in numbers["more"]
    ]
    scores = pq.read_table(folder / "run" / "scores.parquet").to_pylist(maps_as_pydicts="strict")
    for row in scores:
        row["_replication_"] = done.replication(row["_replication_"])
    return compared, sorted(scores, key=lambda row: (row["_index_"], row["_replication_"]))


async def test_a_run_in_pieces_has_the_numbers_of_a_whole_one(tmp_path: Path) -> None:
    """Stopped and gone on with, its answers lie in other parts and another order; no number changes."""
    for name in ("whole", "pieces"):
        (tmp_path / name).mkdir()
    whole, scores = await numbers_of(tmp_path / "whole", [])
    pieces, again = await numbers_of(tmp_path / "pieces", [9, 17, 5])
    assert len(open_run(tmp_path / "pieces" / "run").manifest.parts) > len(
        open_run(tmp_path / "whole" / "run").manifest.parts
    )
    assert scores == again
    for (place, value), (other, expected) in zip(list_leaves(pieces), list_leaves(whole), strict=True):
        assert place == other
        assert value == (pytest.approx(expected, abs=1e-12) if isinstance(expected, float) else expected), (
            place
        )


@settings(max_examples=6, deadline=None)
@given(plans())
def test_every_part_says_the_same(plan: Plan) -> None:
    check_plan(plan)


@pytest.mark.soak
@settings(max_examples=400, deadline=None)
@given(plans())
def test_every_part_says_the_same_of_many_runs(plan: Plan) -> None:
    check_plan(plan)
