"""The texts of `steelyard eval show`."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice

from steelyard.cli.eval.next_command import line_to_score, open_stage, stage_lines
from steelyard.cli.eval.wording import count
from steelyard.errors import UsageError
from steelyard.runs import queries
from steelyard.runs.folder import Run, RunFolder
from steelyard.types import JsonValue

MOST_ERRORS = 50
MOST_LISTED = 5
MOST_GROUPS = 20
SHORT = 100


def summary(run: Run) -> str:
    """Return the request of a run, its result, and the first things that went wrong."""
    return "\n".join(_summary(run))


def _summary(run: Run) -> Iterator[str]:
    path, rows, request = run.folder.path, run.manifest.rows, run.request
    yield f"{path}: {request.model}, {request.source.location}"
    times = f" × {request.replications}" if request.replications > 1 else ""
    questions = sum(entry.rows for entry in run.manifest.inputs)
    yield f"asked:   {count(questions, 'row')}{times}, {run.record['created'][:19].replace('T', ' ')} UTC"
    missing = f", {count(rows.errors)} of them without an answer (--errors)" if rows.errors else ""
    yield f"rows:    {count(rows.present)} of {count(rows.total)}{missing}"
    if tokens := queries.tokens(run):
        yield f"tokens:  {count(tokens[0])} of prompts, {count(tokens[1])} of answers"
    if run.numbers is None:
        stage = open_stage(run.folder)
        if stage is not None:
            yield f"judge:   {stage.path.name}, {'; '.join(stage_lines(stage))}"
        else:
            yield f"score:   {line_to_score(run)}"
        return
    yield f"rubric:  {', '.join(spec.reference for spec in request.rubrics)}"
    for numbers in (run.numbers, *run.numbers.get("more", [])):
        rubric = f"{numbers['rubric']}: " if run.numbers.get("more") else ""
        yield f"score:   {rubric}{numbers['headline']}"
        yield from _scored(numbers)
    for limit in run.numbers.get("limits", []):
        yield f"note:    {limit}"
    wrong = queries.wrong_answers(run, MOST_LISTED)
    if wrong:
        yield "the first wrong answers (--failures N for more, --row INDEX for one):"
        for score in wrong:
            yield f"  row {score['_index_']}: {_short(score.get('prediction'))}, not {_short(score.get('label'))}"
    yield f"report:  {run.folder.page}"


def _scored(numbers: Mapping[str, JsonValue]) -> Iterator[str]:
    """The result of one rubric, over all rows and by group."""
    if counts := numbers.get("counts"):
        yield f"         {counts['scored']:,} scored, {counts['failed']:,} failed, {counts['leftOut']:,} left out"
    metrics = numbers.get("metrics", [])
    for metric in metrics:
        yield f"         {_metric(metric['title'], metric['unit'], metric)}"
    unit = metrics[0]["unit"] if metrics else "number"
    for column, groups in (numbers.get("groups") or {}).items():
        for group in groups[:MOST_GROUPS]:
            title = f"{column} {_short(group['value'])}"
            yield f"         {_metric(title, unit, group['estimate'])}"


def _metric(title: str, unit: str, estimate: Mapping[str, JsonValue]) -> str:
    value, low, high = (_number(estimate.get(name), unit == "share") for name in ("value", "low", "high"))
    known = estimate.get("low") is not None and estimate.get("high") is not None
    return f"{title}: {value}" + (f" ({low} to {high})" if known else "")


def _number(value: float | None, share: bool) -> str:
    if value is None:
        return "unknown"
    return f"{100 * value:.1f} %" if share else f"{value:.4g}"


def errors(run: Run) -> str:
    """A line for each row without an answer."""
    rows = list(islice(queries.row_errors(run), MOST_ERRORS + 1))
    if not rows:
        return f"{run.folder.path}: every row has an answer"
    lines = [
        f"row {row['_index_']}{_times(run, row['_replication_'])}: {row.get('message')}"
        f"{': ' + _short(row['body']) if row.get('body') else ''}"
        for row in rows[:MOST_ERRORS]
    ]
    total = run.manifest.rows.errors
    if total > MOST_ERRORS:
        lines.append(f"… {count(total)} in all: steelyard eval export {run.folder.path} --output FILE")
    return "\n".join(lines)


def failures(run: Run, most: int) -> str:
    """Wrong answers in full."""
    if not run.folder.scores.exists():
        return f"{run.folder.path}: has no scores; score: {line_to_score(run)}"
    wrong = queries.wrong_answers(run, most)
    if not wrong:
        return f"{run.folder.path}: no wrong answer"
    shown = dict.fromkeys(score["_index_"] for score in wrong)
    return "\n\n".join(row(run, index) for index in shown)


def row(run: Run, index: int) -> str:
    """One row with its history."""
    story = queries.story(run, index)
    if story is None:
        raise UsageError(f"--row {index}: {run.folder.path} has no such row")
    lines = [f"row {index}"]
    lines += [f"  {name}: {_whole(value)}" for name, value in story.row.items()]
    for asking in story.askings:
        lines += [f"answer{_times(run, asking.replication)}", *_asking(asking)]
    return "\n".join(lines)


def _asking(asking: queries.Asking) -> Iterator[str]:
    for response in asking.responses or ():
        for name, value in response.items():
            if value is not None and name != "_response_index_":
                yield f"  {name}: {_whole(value)}"
    if asking.responses is None:
        yield "  none"
    for name, value in (asking.error or {}).items():
        if value is not None and not name.startswith("_") and name != "tries":
            yield f"  {name}: {_whole(value)}"
    for failed in (asking.error or {}).get("tries") or ():
        status = "" if failed["status"] is None else f", status {failed['status']}"
        yield f"  failed {failed['time']}, {failed['replica']}{status}: {_short(failed['message'])}"
    for name, scores in asking.scores.items():
        for field, value in scores.items():
            if value is not None and not field.startswith("_"):
                yield f"  {name}.{field}: {_whole(value)}"


def unfinished(folder: RunFolder) -> str:
    """The state of a run that has no verified output yet."""
    request = folder.request()
    title = f"{folder.path}: not done, {request.model}, {request.source.location}"
    return "\n".join([title, *stage_lines(folder)])


def _times(run: Run, replication: int) -> str:
    return f", replication {replication}" if len(run.manifest.replications) > 1 else ""


def _short(value: JsonValue) -> str:
    text = "nothing" if value in (None, "") else " ".join(str(value).split())
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


def _whole(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text.replace("\n", "\n    ")
