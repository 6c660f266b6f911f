"""The pages that the browser looks at: reports of texts, of pictures and of 100,000 rows, an audit, a comparison."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.parts import ERROR_SCHEMA, parquet
from steelyard_evaluation.report import example
from steelyard_evaluation.report.audit.example import SERVICE, make_stored_report
from steelyard_evaluation.report.audit.make import Audit, make_audit
from steelyard_evaluation.report.audit.make import Request as AuditRequest
from steelyard_evaluation.report.audit.subject import Subject
from steelyard_evaluation.report.publish import publish
from steelyard_evaluation.report.report import Request, make_report
from steelyard_evaluation.runs.compare import compare_runs, page
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run
from steelyard_evaluation.storage.files import FileStore

ONCE = "a" * 32
MANY = 100_000
PASSAGE = (
    "The festival was founded by millers who wanted to celebrate the end of the harvest.\n\n"
    "After the flood of 1953 the organisers rebuilt the wooden stage on higher ground. "
) * 4


def ask(count: int, passage: str = PASSAGE) -> list[dict[str, Any]]:
    """Long questions of two topics, with short targets."""
    return [
        {
            "_index_": index,
            "prompt": f"{passage}\n\nQuestion {index}: in which year was the stage rebuilt?",
            "target": str(1900 + index % 90),
            "topic": ("history", "sport")[index % 2],
        }
        for index in range(count)
    ]


def answer(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every 4th answer is wrong, every 10th question is left without one."""
    rows = []
    for question in questions:
        index, target = question["_index_"], question["target"]
        text = f"Going by the second paragraph, it was <b>{target}</b>." if index % 4 else "Nobody knows."
        response = {"_response_index_": 0, "label": text, "probabilities": None}
        responses = None if index % 10 == 9 else [response]
        rows.append({"_index_": index, "_replication_": ONCE, "responses": responses})
    return rows


async def write_pages(root: Path) -> list[Path]:
    """One file per page; more files lie beside them."""
    texts = await report(
        root / "texts", ask(1500), "contains?target=target&field=label", "token-f1?target=target&field=label"
    )
    pictures = await report(root / "pictures", example.make_questions(40), "classification")
    many = await report(root / "many", ask(MANY, "Why?"), "contains?target=target&field=label")
    rows = texts.parent / "rows/page-00001.html"
    return [texts, rows, pictures, many, await audit(root / "audit"), await comparison(root / "comparison")]


async def report(root: Path, questions: Sequence[dict[str, Any]], rubric: str, *more: str) -> Path:
    dataset, output = FileStore(root / "inputs"), FileStore(root / "outputs")
    texts = "target" in questions[0]
    outputs = answer(questions) if texts else example.make_outputs(questions, [ONCE])
    await example.make_verified(dataset, output, questions=questions, outputs=outputs, replications=[ONCE])
    errors = [
        {
            "_index_": row["_index_"],
            "_replication_": ONCE,
            "reason": "BadRequest",
            "message": "refused",
            "status": 400,
        }
        | {"body": '{"error": {"message": "too long"}}', "attempts": 1, "replica": "http://model"}
        for row in outputs
        if row["responses"] is None
    ]
    table = pa.Table.from_pylist(errors, schema=ERROR_SCHEMA)
    await output.put(f"{layout.ERRORS}errors-0000-e-000000.parquet", parquet(table))
    names = {"inferenceServiceName": "some system", "dataset": "questions"}
    request = Request(
        rubric, dataset, output, names, more=more, row_pages=True, group_by=("topic",) if texts else ()
    )
    await publish(await make_report(request, new(root / "scratch")), FileStore(root))
    return root / "report.html"


async def audit(root: Path) -> Path:
    """Make the audit of a system that got better, compared with an earlier audit."""
    old, new = "b" * 31 + "1", "b" * 31 + "2"
    before = await make_stored_report(root, old, wrong=(1, 2, 3, 4, 5, 6), system="old", model="8")
    made = await audited(root / "before", FileStore(before.root), None, "e" * 32)
    earlier = FileStore(root / "earlier")
    await earlier.put("audit.json", made.numbers)
    for place, path in made.scores.items():
        await earlier.put_file(place, path)
    now = await make_stored_report(root, new, wrong=(3,))
    path = root / "index.html"
    await FileStore(root).put(path.name, (await audited(root / "now", now, earlier, "a" * 32)).page)
    return path


def new(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def audited(scratch: Path, report: FileStore, baseline: FileStore | None, identity: str) -> Audit:
    subject = Subject(identity, "examples", "c" * 32, SERVICE)
    return await make_audit(AuditRequest(subject, {report.root.parent.name: report}, baseline), new(scratch))


async def comparison(root: Path) -> Path:
    """Make the comparison of three runs."""
    await FileStore(root).put("about", b"")
    rows = [{"prompt": f"say {number} <b>", "target": str(number)} for number in range(40)]
    folders = []
    for name, wrong in (("first", range(12)), ("second", range(10, 14)), ("third", range(3))):
        prompts = root / f"{name}.parquet"
        write_prompts(prompts, rows)

        def said(prompt: str, wrong: range = wrong) -> str:
            number = int(prompt.split()[1])
            return "<i>" if number in wrong else str(number)

        async with endpoint(said) as server:
            await run(make_request(prompts, server.url, rubrics=(RubricSpec("exact-match"),)), root / name)
        folders.append(root / name)
    compared = compare_runs(folders)
    path = root / "comparison.html"
    await FileStore(root).put(path.name, page(compared, folders[0]))
    return path
