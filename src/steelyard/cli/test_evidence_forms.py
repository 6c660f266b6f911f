"""Reports, by every rubric, and audits, saved in every form that the commands offer: verified untouched they have no
fault, and changed they have one.

What a person leaves out (inputs and outputs above all) is said to be left out.
"""

import asyncio
import json
import random
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.engine.parts import ERROR_SCHEMA, parquet
from steelyard_evaluation.report.audit.example import make_stored_report
from steelyard_evaluation.report.audit.make import Request as AuditRequest
from steelyard_evaluation.report.audit.make import make_audit
from steelyard_evaluation.report.audit.subject import Subject
from steelyard_evaluation.report.evidence.attestation import envelope
from steelyard_evaluation.report.evidence.report_statement import report_statement
from steelyard_evaluation.report.evidence.test_verify import KEY, RECORD
from steelyard_evaluation.report.evidence.verify import ReportFolders, verify_report
from steelyard_evaluation.report.evidence.verify_audit import verify_audit
from steelyard_evaluation.report.example import OUTPUT, make_verified
from steelyard_evaluation.report.page.page import numbers_inside
from steelyard_evaluation.report.publish import make_publication, publish, publish_audit
from steelyard_evaluation.report.report import Request, make_report
from steelyard_evaluation.report.results import Answer
from steelyard_evaluation.report.rubrics.test_contract import EXAMPLES
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.lm_eval import process
from steelyard_evaluation.runs.lm_eval.rubric import Task
from steelyard_evaluation.runs.lm_eval.test_lm_eval import DoubleOfLmEval
from steelyard_evaluation.runs.lm_eval.test_lm_eval import answers as answers_of_lm_eval
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.storage.files import FileStore

INSTALLED = sorted(point.name for point in entry_points(group="steelyard.rubrics"))
LM_EVAL = "lm_eval.Task"
SCHEMA_FILE = "structure.JsonSchema of a file"
MODULE = "in_a_module.Same"
MANY_ROWS = "text.ExactMatch with pages of rows"
RUN = "a run with a judge"
REPORTS = [*INSTALLED, SCHEMA_FILE, MODULE, MANY_ROWS, RUN]
OWN_LAYOUTS = {"text.ExactMatch", LM_EVAL, SCHEMA_FILE, MODULE, MANY_ROWS, RUN}
"""Reports whose folders differ; those of the other rubrics have the folders of ExactMatch."""
FEW = 4
"""Number of files to change in a form that leaves something out; all are changed in the whole form."""
BESIDE = {"report.html", "report.json", "scores.parquet", "attestation.json"}
CODE = "from steelyard_evaluation.report.rubrics.text import ExactMatch as Same\n"


@dataclass(frozen=True)
class MadeReport:
    """A report in the folder of its evidence."""

    folders: ReportFolders
    known: tuple[EntryPoint, ...] | None = None
    before: Callable[[], None] = field(default=lambda: None)
    """Function to call before each verification."""

    def inside(self, root: Path) -> ReportFolders:
        """Return the folders of a copy of the report at `root`."""

        def moved(path: Path) -> Path:
            return root / path.relative_to(self.folders.report)

        own = self.folders
        run = None if own.run is None else moved(own.run)
        return ReportFolders(
            root, moved(own.dataset), moved(own.evaluation), moved(own.errors), run=run, known=self.known
        )


def rows_of(right: Answer, wrong: Answer, count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return questions in groups and clusters, and their answers, right, wrong and none."""
    questions, outputs = [], []
    for index in range(count):
        answer = wrong if index % 3 == 1 else right
        given = None if index % 11 == 5 else answer.responses
        questions.append({"_index_": index, **answer.row, "kind": f"k{index % 2}", "page": f"p{index // 2}"})
        responses = given and [{"_response_index_": n, **said} for n, said in enumerate(given)]
        outputs.append({"_index_": index, "_replication_": "a" * 32, "responses": responses})
    return questions, outputs


def example(name: str, root: Path) -> tuple[str, Answer, Answer, int]:
    """Return a rubric with its arguments, a right answer, a wrong one, and the number of rows."""
    if name == SCHEMA_FILE:
        (root / "schema.json").write_text('{"type":"object","required":["a"]}')
        _, right, wrong = EXAMPLES["structure.JsonSchema"]
        return f"structure.JsonSchema?schema={root / 'schema.json'}", right, wrong, 24
    arguments, right, wrong = EXAMPLES.get(name, EXAMPLES["text.ExactMatch"])
    if name == MANY_ROWS:
        return "text.ExactMatch", right, wrong, 1100
    return f"{name}{arguments}", right, wrong, 24


async def make(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> MadeReport:
    if name == RUN:
        return await make_run(root)
    folder = root / "report"
    folders = ReportFolders(folder, folder / "inputs", folder / "outputs", folder / "outputs")
    inputs, outputs = FileStore(folders.dataset), FileStore(folders.evaluation)
    made = MadeReport(folders)
    if name == LM_EVAL:
        reference, made = "lm_eval.Task?task=x", replace(made, before=expect_lm_eval)
        given = answers_of_lm_eval([True, False, None, True] * 3)
        questions: list[dict[str, Any]] = [
            {"_index_": a.index, **a.row, "kind": "loglikelihood"} for a in given
        ]
        answers: list[dict[str, Any]] = [
            {"_index_": a.index, "_replication_": "r" * 32, "responses": a.responses} for a in given
        ]
        grouping: dict[str, Any] = {}
    else:
        reference, right, wrong, count = example(name, root)
        questions, answers = rows_of(right, wrong, count)
        grouping = {"group_by": ("kind",), "cluster_by": "page"}
    if name == MODULE:
        (root / "in_a_module.py").write_text(CODE)
        monkeypatch.syspath_prepend(root)
        made = replace(made, known=(EntryPoint(MODULE, "in_a_module:Same", "steelyard.rubrics"),))
    schema = OUTPUT if name == "classification.Classification" else pa.Table.from_pylist(answers).schema
    await make_verified(inputs, outputs, questions=questions, outputs=answers, schema=schema)
    records = pa.Table.from_pylist([{**RECORD, "_index_": 5}], schema=ERROR_SCHEMA)
    await outputs.put(f"{layout.ERRORS}errors-0000-e-000000.parquet", parquet(records))
    request = Request(
        reference,
        inputs,
        outputs,
        {"dataset": "some"},
        records={"run.yaml": b"a: 1\n"},
        row_pages=True,
        known=made.known,
        **grouping,
    )
    (folder / "run.yaml").write_bytes(b"a: 1\n")
    (root / "scratch").mkdir()
    made.before()
    await publish(await make_report(request, root / "scratch"), FileStore(folder), KEY)
    return made


def expect_lm_eval() -> None:
    """Let a double stand for lm-eval at its next scoring."""
    process._waiting[Task("x").name] = DoubleOfLmEval(12)  # type: ignore[assignment]


async def make_run(root: Path) -> MadeReport:
    """A run whose answers a judge has graded."""
    prompts = write_prompts(root / "p.parquet", 6)
    folder = root / "report"
    async with endpoint(lambda prompt: "VERDICT: correct" if "grading" in prompt else "7") as server:
        request = make_request(
            prompts,
            server.url,
            judges=(JudgeSpec("grader", name="one"),),
            rubrics=(RubricSpec("judge.Verdict"), RubricSpec("overlap.Bleu")),
        )
        await run(request, folder, sign_key=None)
    page, numbers = (folder / "report.html").read_bytes(), (folder / "report.json").read_bytes()
    (folder / "attestation.json").write_bytes(envelope(report_statement(page, numbers), KEY))
    return MadeReport(
        ReportFolders(folder, folder / "inputs", folder / "judged", folder / "outputs", run=folder)
    )


MakeReport = Callable[[str], Awaitable[MadeReport]]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeReport]:
    """Makes the report of each name once; tests change copies of it."""
    reports: dict[str, MadeReport] = {}
    with pytest.MonkeyPatch.context() as paths:

        async def make_once(name: str) -> MadeReport:
            if name not in reports:
                reports[name] = await make(name, tmp_path_factory.mktemp("report"), paths)
            return reports[name]

        yield make_once


def forms(root: Path) -> dict[str, list[Path]]:
    """Return the parts left out in each form that a report may be given to others in, relative to its folder."""
    top = sorted(path.relative_to(root) for path in root.iterdir())
    folders = [path for path in top if (root / path).is_dir()]
    files = [path for path in top if path not in folders]
    # A copy of `outputs/*` has no hidden folder.
    hidden = [path.relative_to(root) for path in root.glob("outputs/.steelyard")]
    errors = [path.relative_to(root) for path in root.glob("outputs/.steelyard/errors")]
    judges = [path.relative_to(root) for path in root.glob("judges/*")]
    without_rows = [path for path in folders if path.name != "rows"]
    kept = {
        "page": ["report.html"],
        "numbers": ["report.json"],
        "page and statement": ["report.html", "attestation.json"],
        "page and numbers": ["report.html", "report.json"],
        "numbers and scores": ["report.json", "scores.parquet"],
        "as it is saved": ["rows", "rubric-files", *(path.name for path in files if path.name != "run.yaml")],
    }
    return {
        "whole": [],
        **{f"without {path}": [path] for path in (*folders, *hidden, *errors, *judges)},
        **{f"alone, without {path}": [*without_rows, path] for path in files},
        **{f"{name} alone": [path for path in top if path.name not in names] for name, names in kept.items()},
    }


def copied(source: Path, target: Path, left_out: Sequence[Path]) -> Path:
    shutil.copytree(source, target)
    for path in left_out:
        if (target / path).is_dir():
            shutil.rmtree(target / path)
        else:
            (target / path).unlink()
    return target


async def faults(made: MadeReport, root: Path) -> list[str]:
    made.before()
    folders = made.inside(root)
    return [check.what async for check in verify_report(folders, KEY.public_key()) if check.state == "fault"]


async def verified(made: MadeReport, root: Path, *, signed: bool) -> tuple[list[str], list[str]]:
    """Return the faults and what is left out."""
    made.before()
    key = KEY.public_key() if signed else None
    checks = [check async for check in verify_report(made.inside(root), key)]
    of_state = {
        state: [check.what for check in checks if check.state == state] for state in ("fault", "unchecked")
    }
    return of_state["fault"], of_state["unchecked"]


@pytest.mark.parametrize("name", REPORTS)
async def test_an_untouched_report_has_no_fault_in_any_form(
    name: str, tmp_path: Path, report: MakeReport
) -> None:
    made = await report(name)
    for number, (form, left_out) in enumerate(forms(made.folders.report).items()):
        copy = copied(made.folders.report, tmp_path / f"copy-{number}", left_out)
        signed = (copy / "attestation.json").exists() and (copy / "report.html").exists()
        wrong, unchecked = await verified(made, copy, signed=signed)
        assert not wrong, (form, wrong)
        if "alone" in form:
            assert any("not here: " in line for line in unchecked), (form, unchecked)
    process._waiting.clear()


@pytest.mark.parametrize("name", REPORTS)
async def test_one_bit_of_any_file_that_is_there_is_found_in_any_form(
    name: str, tmp_path: Path, report: MakeReport
) -> None:
    """Every file of the whole form is changed. Each form that leaves something out has a few files changed: all forms
    where the folders are laid out as in no other report, some drawn ones elsewhere.
    """
    made, chance = await report(name), random.Random(name)
    # What nobody vouches for can be changed as a whole.
    vouched = {
        form: left_out
        for form, left_out in forms(made.folders.report).items()
        if Path("attestation.json") not in left_out
    }
    drawn = list(vouched) if name in OWN_LAYOUTS else ["whole", *chance.sample(sorted(vouched), 3)]
    for number, form in enumerate(drawn):
        copy = copied(made.folders.report, tmp_path / f"copy-{number}", vouched[form])
        named = named_files(copy, made)
        files = sorted(path for path in named if path.is_file() and "/.spent/" not in str(path))
        for path in files if form == "whole" else chance.sample(files, min(FEW, len(files))):
            before = path.read_bytes()
            changed = bytearray(before)
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            path.write_bytes(changed)
            assert await faults(made, copy), (form, path)
            path.write_bytes(before)
    process._waiting.clear()


def named_files(root: Path, made: MadeReport) -> set[Path]:
    """Return the files that the report names, and its own."""
    folders = made.inside(root)
    file = root / "report.json"
    raw = file.read_bytes() if file.exists() else numbers_inside((root / "report.html").read_bytes())
    evidence = json.loads(raw or b"")["evidence"]
    named = {folders.find_path(entry["what"], entry["path"]) for entry in evidence}
    return {path for path in named if path is not None} | {
        root / name for name in BESIDE - {"scores.parquet"}
    }


def figures(document: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of all numbers."""
    if isinstance(document, dict | list):
        for name, inner in document.items() if isinstance(document, dict) else enumerate(document):
            yield from figures(inner, (*place, name))
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield place


NOT_OF_SCORES = {
    "rows",
    "run",
    "rowErrors",
    "tokens",
    "calls",
    "spending",
    "rowsShown",
    "evidence",
    "failures",
    "servers",
}
"""Parts of report.json that the scores alone do not give."""


@pytest.mark.parametrize("name", [name for name in REPORTS if name not in {MANY_ROWS, RUN}])
async def test_every_figure_that_was_changed_with_its_page_and_statement_is_found_without_the_evidence(
    name: str, tmp_path: Path, report: MakeReport
) -> None:
    """The report is not signed: whoever changed a figure has made page and statement anew."""
    made = await report(name)
    original = json.loads((made.folders.report / "report.json").read_bytes())
    places = [place for place in figures(original) if place[0] not in NOT_OF_SCORES]
    assert len(places) > 5
    copy = copied(made.folders.report, tmp_path / "copy", [Path("inputs"), Path("outputs")])
    page = (copy / "report.html").read_bytes()
    for place in random.Random(5).sample(places, min(25, len(places))):
        changed = json.loads((made.folders.report / "report.json").read_bytes())
        parent: Any = changed
        for part in place[:-1]:
            parent = parent[part]
        parent[place[-1]] += 1
        numbers = json.dumps(changed, indent=2, sort_keys=True).encode() + b"\n"
        inside = numbers_inside(page)
        assert inside is not None
        new_page = page.replace(inside, json.dumps(changed).replace("<", "\\u003c").encode())
        (copy / "report.json").write_bytes(numbers)
        (copy / "report.html").write_bytes(new_page)
        (copy / "attestation.json").write_bytes(report_statement(new_page, numbers))
        wrong, _ = await verified(made, copy, signed=False)
        assert wrong, place
        assert not any("does not hold" in line or "is not the statement" in line for line in wrong), wrong
    process._waiting.clear()


async def make_stored_audit(root: Path) -> Path:
    """Return the folder that `audit download --evidence` gives, of an audit with an earlier one."""
    folder = root / "audit"
    now, before, data, evaluation = "2" * 32, "1" * 32, "d" * 32, "9" * 32
    (root / "scratch").mkdir()
    for identity, wrong, place in ((before, [1, 2, 3], root / "earlier"), (now, [1], folder)):
        stored = await make_stored_report(
            root / "stored", identity, wrong=wrong, evaluation=evaluation, account="a"
        )
        shutil.copytree(stored.root, place / "reports" / identity)
        for what, name in (("dataset", f"datasets/{data}"), ("evaluation", f"evaluations/{evaluation}")):
            shutil.copytree(root / "stored" / identity / what, place / name)
        scratch = root / f"scratch-{identity}"
        scratch.mkdir()
        baseline = FileStore(root / "earlier") if place == folder else None
        request = AuditRequest(
            Subject(identity, "a", "c" * 32, "5" * 32),
            {identity: FileStore(place / "reports" / identity)},
            baseline,
        )
        made = await make_audit(request, scratch)
        epoch = await claim(FileStore(place), f"{0:020d}-{'a' * 8}")
        await publish_audit(made, identity, make_publication(epoch), KEY)
        shutil.rmtree(place / ".steelyard")
    kept = {"index.html", "audit.json", "attestation.json", "scores"}
    for path in (root / "earlier").iterdir():
        if path.name in kept:
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, baseline_place(folder) / path.name)
    return folder


def baseline_place(folder: Path) -> Path:
    (folder / "baseline").mkdir(exist_ok=True)
    return folder / "baseline"


def audit_forms(root: Path) -> dict[str, list[Path]]:
    """Return the parts left out in each form that an audit may be given to others in."""
    top = sorted(path.relative_to(root) for path in root.iterdir())
    folders = [path for path in top if (root / path).is_dir()]
    inside = [
        path.relative_to(root)
        for name in ("reports", "baseline")
        for path in root.glob(f"{name}/*")
        if path.is_dir()
    ]
    saved = [path.relative_to(root) for path in root.glob("reports/*/*") if path.name != "report.html"]
    evidence = [Path("datasets"), Path("evaluations"), Path("baseline")]
    kept = {
        "page": ["index.html"],
        "numbers": ["audit.json"],
        "page and statement": ["index.html", "attestation.json"],
        "page and numbers": ["index.html", "audit.json"],
        "page, numbers and statement": ["index.html", "audit.json", "attestation.json"],
        "page and scores": ["index.html", "scores"],
    }
    return {
        "whole": [],
        "as it is saved": [*evidence, *saved],
        **{f"without {path}": [path] for path in (*folders, *inside)},
        **{f"{name} alone": [path for path in top if path.name not in names] for name, names in kept.items()},
    }


async def test_an_untouched_audit_has_no_fault_in_any_form_and_a_changed_one_has(tmp_path: Path) -> None:
    folder, chance = await make_stored_audit(tmp_path), random.Random(7)
    for number, (form, left_out) in enumerate(audit_forms(folder).items()):
        copy = copied(folder, tmp_path / f"copy-{number}", left_out)
        statement = (copy / "attestation.json").exists()
        key = KEY.public_key() if statement else None
        wrong = [check.what async for check in verify_audit(copy, key) if check.state == "fault"]
        assert not wrong, (form, wrong)
        own = [copy / name for name in ("index.html", "audit.json", "attestation.json")]
        inside = {*copy.glob("scores/*"), *copy.glob("reports/*/*"), *copy.glob("*/*/part-*")}
        files = [path for path in (*own, *sorted(inside)) if statement and path.is_file()]
        for path in files if form == "whole" else chance.sample(files, min(FEW, len(files))):
            before = path.read_bytes()
            changed = bytearray(before)
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            path.write_bytes(changed)
            assert [check async for check in verify_audit(copy, key) if check.state == "fault"], (form, path)
            path.write_bytes(before)


async def test_the_command_passes_a_runs_report_that_was_mailed_without_its_evidence(
    tmp_path: Path, report: MakeReport
) -> None:
    made = await report(RUN)
    for number, (form, left_out) in enumerate(forms(made.folders.report).items()):
        copy = copied(made.folders.report, tmp_path / f"copy-{number}", left_out)
        page = "report.html" if (copy / "report.html").exists() else "report.json"
        # A command has a loop of its own.
        done = await asyncio.to_thread(CliRunner().invoke, app, ["report", "verify", str(copy / page)])
        assert done.exit_code == 0, (form, done.output)
