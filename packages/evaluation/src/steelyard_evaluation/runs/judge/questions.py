"""The questions for a judge, one line of JSON per prompt: the row, the answer and what makes an answer right.

The same answers give the same bytes, so that a report can be checked against them (`judge.evidence`).
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import orjson

from steelyard_common.durable import rename_durably
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.report.rubrics.answer import answer_in, to_text
from steelyard_evaluation.runs.folder import Run, RunFolder, RunRow
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.prompts.render import renderer
from steelyard_evaluation.runs.prompts.template import Template
from steelyard_evaluation.runs.request import TARGETS, PromptSpec
from steelyard_evaluation.runs.resolve import ANOTHER_NAME
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_schema.columns import lacking

QUESTIONS = "questions.jsonl"


def write_questions(run: Run, spec: JudgeSpec, folder: RunFolder) -> Path:
    """Write the questions into the folder of the judge's run; UsageError where the run has no answer to judge."""
    path = folder.path / QUESTIONS
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".#{QUESTIONS}")
    with scratch.open("wb") as file:
        file.writelines(question_lines(run, spec))
        empty = file.tell() == 0
    if empty:
        scratch.unlink()
        raise UsageError(f"judge {spec.name}: the run has no answer to judge; every row is an error")
    # The questions that a judge was asked are evidence of its verdicts.
    if folder.run_json.exists() and path.exists() and file_sha256(path) != file_sha256(scratch):
        scratch.unlink()
        raise UsageError(
            f"judge {spec.name}: {folder.path}: was begun with other questions. Ask the same again; {ANOTHER_NAME}"
        )
    rename_durably(scratch, path)
    return path


def question_lines(run: Run, spec: JudgeSpec) -> Iterator[bytes]:
    """Yield the questions about the answers of `run`, as lines of JSON."""
    return lines_about(run.rows(), run.request.prompt, spec, str(run.folder.path))


def lines_about(
    rows: Iterable[RunRow], prompt_spec: PromptSpec, spec: JudgeSpec, location: str
) -> Iterator[bytes]:
    """Yield the questions about the answers of `rows`, made with `prompt_spec`; errors name `location`."""
    for question in _questions(rows, prompt_spec, spec, location):
        yield orjson.dumps(question, option=orjson.OPT_APPEND_NEWLINE)


def _questions(
    rows: Iterable[RunRow], prompt_spec: PromptSpec, spec: JudgeSpec, location: str
) -> Iterator[dict[str, JsonValue]]:
    spec = spec.with_defaults()
    template = Template(spec.template, f"judge {spec.name}, template")
    # By worth, then by name: the prompt must not depend on the order in which a file happens to list them.
    names = sorted(spec.grades, key=lambda name: (-spec.grades[name], name))
    grades = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    render = None
    for row in rows:
        response = (row.responses or [{}])[0].get("text")
        # A row error has no answer; it is an error in the report, and no question to the judge.
        if response is None:
            continue
        response = answer_in(str(response))
        if render is None:
            render = renderer(prompt_spec, list(row.row), location)
        variables: dict[str, JsonValue] = {
            **row.row,
            "row": row.row,
            "question": _text(render(row.row)),
            "response": response,
            "target": _target(spec, row.row),
            "criteria": spec.criteria,
            "grades": grades,
        }
        for order in _orders(spec, row, response):
            try:
                prompt = template(variables | order)
            except ValueError as error:
                raise UsageError(f"row {row.index}: {error}") from error
            number = {"order": order["order"]} if order else {}
            yield {"index": row.index, "replication": row.replication, **number, "prompt": prompt}


def _orders(spec: JudgeSpec, row: RunRow, response: str) -> Iterator[dict[str, JsonValue]]:
    """The variables in which the prompts about one answer differ: none, or the order in which a pair is shown."""
    if spec.against is None:
        yield {}
        return
    if spec.against not in row.row:
        raise UsageError(
            f"judge {spec.name}: should have answers in the column {spec.against!r}; {lacking([spec.against], row.row)}"
        )
    other = row.row[spec.against]
    if other is None:
        raise UsageError(f"judge {spec.name}: row {row.index} has no answer in the column {spec.against!r}")
    against = answer_in(to_text(other))
    yield {"order": 0, "first": response, "second": against}
    yield {"order": 1, "first": against, "second": response}


def _target(spec: JudgeSpec, row: Mapping[str, JsonValue]) -> str | None:
    names = [spec.target] if spec.target is not None else [name for name in TARGETS if name in row]
    value = row.get(names[0]) if names else None
    if isinstance(value, list):
        return " | ".join(map(to_text, value))
    return None if value is None else to_text(value)


def _text(prompt: JsonValue) -> str:
    """The prompt as text; where it has several messages, each with its role."""
    if not isinstance(prompt, list):
        return to_text(prompt)
    contents = [to_text(message.get("content") or "") for message in prompt]
    if len(prompt) == 1:
        return contents[0]
    return "\n\n".join(
        f"{message.get('role')}: {said}" for message, said in zip(prompt, contents, strict=True)
    )
