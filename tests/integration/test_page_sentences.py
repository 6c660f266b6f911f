"""Every page and every line for people, of every rubric, audit and comparison: no notation of Python, no sentence that
says nothing, one name and one notation for one quantity.

The data are of the kinds that Python writes in its own way: true and false, nothing, lists, bytes, times.
"""

import html
import re
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard_evaluation.report.audit.example import make_stored_report
from steelyard_evaluation.report.audit.make import Request as AuditRequest
from steelyard_evaluation.report.audit.make import make_audit
from steelyard_evaluation.report.audit.subject import Subject
from steelyard_evaluation.report.example import OUTPUT, make_questions, make_verified
from steelyard_evaluation.report.report import Request, make_report
from steelyard_evaluation.report.rubrics import GROUP
from steelyard_evaluation.report.rubrics.test_contract import EXAMPLES
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.storage.files import FileStore

PYTHON = re.compile(
    r"\b(?:None|True(?! class)|False|nan|NaN|datetime|Decimal|UUID|PosixPath)\b|\bb'|\[['b]|\{'|\\x[0-9a-f]{2}|<class "
)
"""Notation that Python alone has; JSON is for people who have such data."""
NOTHING_SAID = (
    re.compile(r"(\S.{0,40}), (?:not|should be) \1(?![\w.,])"),
    re.compile(r"interval:? no interval"),
    re.compile(r"\b(\d[\d,]*) of (?!\1\b)\d+ of \d+"),
    re.compile(r"\bunknown to unknown\b"),
)
ODD: dict[str, Any] = {
    "flag": [True, False],
    "tags": [["a", "b"], []],
    "raw": [b"Z\xc3\xbcrich", b"\xff"],
    "time": [datetime(2024, 5, 1, 12, 30, tzinfo=UTC), None],
    "maybe": [None, 1.5],
}
WITHOUT_TABLES = re.compile(r"<(style|script)\b.*?</\1>", re.DOTALL)


def visible(page: bytes) -> str:
    """Return what a reader sees, and what a reader of the rows in the browser sees."""
    rows = re.findall(
        r'<script type="application/json" id="rows-data">(.*?)</script>', page.decode(), re.DOTALL
    )
    shown = html.unescape(re.sub(r"<[^>]+>", " ", WITHOUT_TABLES.sub("", page.decode())))
    return shown + " ".join(
        re.sub(r'\bnull\b|["\[\]{}:,]', " ", data.replace("\\u0022", " ")) for data in rows
    )


def check(text: str) -> None:
    plain = " ".join(text.split())
    shown = [plain[max(0, match.start() - 60) : match.end() + 20] for match in PYTHON.finditer(plain)]
    for nothing in NOTHING_SAID:
        shown += [plain[max(0, match.start() - 40) : match.end() + 20] for match in nothing.finditer(plain)]
    assert shown == []


def quantities(page: bytes) -> dict[str, set[str]]:
    """Return the values that stand for each metric on the tiles and in the tables of metrics, by its name."""
    text = WITHOUT_TABLES.sub("", page.decode())
    named = defaultdict(set)
    for name, value in re.findall(r'<span class="name">([^<]+)</span> <strong>([^<]+)</strong>', text):
        named[name].add(value)
    row = (
        r'<tr><th scope="row">([^<]+?)(?: <small>[^<]*</small>)?</th>'
        + r'<td class="number">([^<]+)</td>' * 2
    )
    for name, value, _ in re.findall(row, text):
        named[name].add(value)
    return named


def odd_rows(count: int) -> list[dict[str, Any]]:
    return [{name: values[index % 2] for name, values in ODD.items()} for index in range(count)]


async def page_of(name: str, root: Path) -> bytes:
    arguments, right, wrong = EXAMPLES[name]
    questions, outputs = [], []
    for index, odd in enumerate(odd_rows(24)):
        answer = wrong if index % 3 == 1 else right
        given = None if index % 11 == 5 else answer.responses
        questions.append({"_index_": index, **odd, **answer.row})
        responses = given and [{"_response_index_": n, **said} for n, said in enumerate(given)]
        outputs.append({"_index_": index, "_replication_": "a" * 32, "responses": responses})
    stores = FileStore(root / "inputs"), FileStore(root / "outputs")
    schema = OUTPUT if name == "classification.Classification" else pa.Table.from_pylist(outputs).schema
    await make_verified(*stores, questions=questions, outputs=outputs, schema=schema)
    (root / "scratch").mkdir()
    request = Request(f"{name}{arguments}", *stores, group_by=("flag", "maybe"), cluster_by="time")
    return (await make_report(request, root / "scratch")).page


IN_A_REPORT = sorted(set(entry_points(group=GROUP).names) - {"lm_eval.Task"})


@pytest.mark.parametrize("name", IN_A_REPORT)
async def test_a_report_is_written_for_people(name: str, tmp_path: Path) -> None:
    page = await page_of(name, tmp_path)
    check(visible(page))
    assert {metric: values for metric, values in quantities(page).items() if len(values) > 1} == {}


async def test_an_audit_is_written_for_people(tmp_path: Path) -> None:
    identity = "1" * 32
    store = await make_stored_report(tmp_path, identity, wrong=range(2), questions=make_questions(89))
    (tmp_path / "scratch").mkdir()
    request = AuditRequest(Subject("2" * 32, "a", "c" * 32, "5" * 32), {identity: store})
    page = (await make_audit(request, tmp_path / "scratch")).page
    check(visible(page))
    assert "abc answers 87 of 89 questions right." in visible(page)


async def test_lines_and_pages_of_runs_are_written_for_people(tmp_path: Path) -> None:
    rows = [{"prompt": f"say {index}", "target": "1048", **odd} for index, odd in enumerate(odd_rows(9))]
    prompts = write_prompts(tmp_path / "prompts.parquet", rows)

    def answer(prompt: str) -> str:
        if "[Answer to grade]" in prompt:
            return f"VERDICT: {'correct' if 'say 3' in prompt else 'incorrect'}"
        return "1048" if "1" not in prompt else "7"

    runs = [tmp_path / "one", tmp_path / "other"]
    async with endpoint(answer) as server:
        for path, limit in zip(runs, (9, 7), strict=True):
            request = make_request(
                prompts,
                server.url,
                rubrics=(RubricSpec("judge.Verdict"), RubricSpec("exact-match")),
            )
            source = replace(request.source, limit=limit)
            request = replace(request, judges=(JudgeSpec("judge"),), source=source, model=path.name)
            await run(request, path)
    for path in runs:
        check(visible((path / "report.html").read_bytes()))
    commands = [
        ["show", str(runs[0])],
        ["show", str(runs[0]), "--failures", "9"],
        ["show", str(runs[0]), "--failures", "9", "--full"],
        ["show", str(runs[0]), "--row", "1"],
        ["show", str(runs[0]), "--row", "2"],
        ["show", str(runs[0]), "--errors"],
        ["compare", *map(str, runs), "--output", str(tmp_path / "compared.html")],
    ]
    for command in commands:
        result = CliRunner().invoke(app, ["eval", *command])
        assert result.exit_code == 0, result.output
        check(result.stdout)
    assert "of the questions that both runs of a comparison share" in result.stdout
    check(visible((tmp_path / "compared.html").read_bytes()))
    shown = CliRunner().invoke(app, ["eval", "show", str(runs[0])]).stdout
    assert "1048, graded incorrect" in shown


async def test_the_printed_page_opens_what_paper_cannot(tmp_path: Path) -> None:
    """A browser of the engine suite prints it; here is what its style sheet and its text say."""
    page = (await page_of("classification.Classification", tmp_path)).decode()
    printed = page.partition("@media print {")[2].partition("</style>")[0]
    hidden = [rule for rule in printed.splitlines() if "display: none" in rule]
    assert "<details>" in page
    assert not any("details" in rule for rule in hidden)
    assert "details::details-content { content-visibility: visible;" in printed
    assert 'class="on-paper">The rows are not printed' in page
    assert not re.search(r">[^<]*\b(?:red|blue|green|grey)\b[^<]*</text>", page)
