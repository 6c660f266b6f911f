"""The texts of `steelyard eval show`."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from steelyard.cli.eval.next_command import line_to_score, open_stage, stage_lines
from steelyard.cli.eval.wording import count
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue, mapping, sequence, shorten
from steelyard_evaluation.report.page.rows import readable
from steelyard_evaluation.report.rubrics.answer import to_text
from steelyard_evaluation.report.status import COLUMN as STATUS
from steelyard_evaluation.report.status import FAILED, LEFT_OUT
from steelyard_evaluation.report.wording import decimal, percent
from steelyard_evaluation.runs import queries
from steelyard_evaluation.runs.folder import Run, RunFolder
from steelyard_evaluation.runs.spending.spending_log import sum_logs

MOST_ERRORS = 50
MOST_LISTED = 5
MOST_GROUPS = 20
SHORT = 100
MOST_CHARACTERS = 300
"""Length of a value in a list of failures."""
SHORTENED = " […] "
KNOWN = frozenset({"score", "correct", STATUS})
"""Columns of scores that the line of the rubric says."""
JUDGED = frozenset({"label", "prediction", "judge", "verdict", "reason", "fault"})
"""Columns of scores that a list of failures says in words."""


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
    yield from _waste_lines(run)
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
        yield from _score_lines(numbers)
    for limit in run.numbers.get("limits", []):
        yield f"note:    {limit}"
    yield from _first_wrong(run)
    yield f"report:  {run.folder.page}"


def _waste_lines(run: Run) -> Iterator[str]:
    """Tell of calls that brought nothing: answers that a kill lost before they were durable, and lost calls."""
    spent = sum_logs(run.folder)
    twice = spent.kept - (run.manifest.rows.present - run.manifest.rows.errors)
    if twice > 0:
        how = "with their process or in a file that was changed"
        yield f"         {count(twice, 'call')} paid twice: their first answers were lost, {how}"
    if spent.lost:
        yield f"         {count(spent.lost, 'call')} without an answer that arrived: perhaps paid as well"


def _first_wrong(run: Run) -> Iterator[str]:
    wrong = queries.find_wrong_rows(run, MOST_LISTED)
    if not wrong.first:
        return
    several = len(queries.list_rubrics(run)) > 1
    yield "the first rows with a wrong answer (--failures N for more, --row INDEX for one):"
    for row in wrong.first:
        rubric, score = next(iter(row.first.items()))
        by = f"by {rubric}: " if several else ""
        times = f" ({row.wrong[rubric]} of {row.times} times)" if row.times > 1 else ""
        yield f"  row {row.index}: {by}{_mistake_text(score)}{times}"


def _mistake_text(score: Mapping[str, JsonValue]) -> str:
    """Return what an answer said, and what it should have said or how it was graded."""
    said, expected = _short(score.get("prediction")), _short(score.get("label"))
    if score.get("judge"):  # a judge may find an answer wrong that is the target
        return f"{said}, graded {_short(score.get('verdict'))}"
    return f"{said}, not {expected}" if said != expected else f"{said}, which is wrong"


def _score_lines(numbers: Mapping[str, JsonValue]) -> Iterator[str]:
    """The result of one rubric, over all rows and by group."""
    if counts := numbers.get("counts"):
        yield f"         {counts['scored']:,} scored, {counts['failed']:,} failed, {counts['leftOut']:,} left out"
    metrics = numbers.get("metrics", [])
    for metric in metrics:
        yield f"         {_metric(metric['title'], metric, metric)}"
    # Groups are means of rows, which the first number may not be (BLEU of the corpus).
    mean = f"{mapping(numbers, 'meanOfRows')['title']}, " if "meanOfRows" in numbers else ""
    for column, groups in mapping(numbers, "groups").items():
        for group in groups[:MOST_GROUPS]:
            title = f"{mean}{column} {_short(group['value'])}"
            yield f"         {_metric(title, metrics[0], group['estimate'])}"


def _metric(title: str, metric: Mapping[str, JsonValue], estimate: Mapping[str, JsonValue]) -> str:
    """Return a number with its interval, in the unit and on the scale of `metric`."""
    scale = metric.get("scale")
    value, low, high = (
        _number(estimate.get(name), metric["unit"] == "share", (scale[0], scale[1]) if scale else None)
        for name in ("value", "low", "high")
    )
    known = estimate.get("low") is not None and estimate.get("high") is not None
    return f"{title}: {value}" + (f" ({low} to {high})" if known else "")


def _number(value: float | None, share: bool, scale: tuple[float, float] | None) -> str:
    if value is None:
        return "unknown"
    return percent(value) if share else decimal(value, scale)


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


def failures(run: Run, most: int, *, full: bool = False) -> str:
    """The first rows with a wrong answer: the question, each wrong answer, and what the rubrics say of it."""
    if not run.folder.scores.exists():
        return f"{run.folder.path}: has no scores; score: {line_to_score(run)}"
    wrong = queries.find_wrong_rows(run, most)
    if not wrong.first:
        return f"{run.folder.path}: no wrong answer"
    totals = [f"{count(number)} by {rubric}" for rubric, number in wrong.totals.items()]
    show = _whole if full else _shorten
    blocks = [f"{run.folder.path}: rows with a wrong answer: {', '.join(totals)}"]
    blocks += ["\n".join(_wrong_row(run, row, show)) for row in wrong.first]
    if any(SHORTENED in block for block in blocks):
        blocks.append("(long values are shortened: --full shows them whole)")
    return "\n\n".join(blocks)


def _wrong_row(run: Run, wrong: queries.WrongRow, show: Callable[[JsonValue], str]) -> Iterator[str]:
    times = f" {{}} of {wrong.times} times" if wrong.times > 1 else ""
    by = [f"wrong{times.format(number)} by {rubric}" for rubric, number in wrong.wrong.items()]
    yield f"row {wrong.index}: {', '.join(by)}"
    story = queries.story(run, wrong.index)
    assert story is not None
    yield from (f"  {name}: {show(value)}" for name, value in story.row.items())
    rubrics = queries.list_rubrics(run)
    for asking in story.askings:
        if not any(asking.scores.get(name, {}).get("correct") is False for name in rubrics):
            continue
        text = (asking.responses or [{}])[0].get("text")
        yield f"answer{_times(run, asking.replication)}: {show(text)}"
        for name, rubric in rubrics.items():
            yield from _verdict_lines(rubric, asking.scores.get(name, {}), text, show)


def _verdict_lines(
    rubric: str, scores: Mapping[str, JsonValue], text: JsonValue, show: Callable[[JsonValue], str]
) -> Iterator[str]:
    """Yield the verdict of a rubric on one answer in a list of failures: what it adds to the answer, and no
    more.
    """
    line = _verdict(rubric, scores)
    if scores.get("correct") is False:
        if scores.get("prediction") != text:
            line += f", read as {show(scores.get('prediction'))}"
        if scores.get("label") != scores.get("prediction"):
            line += f", should be {show(scores.get('label'))}"
    yield line
    for before in ("", "second_"):
        if judge := scores.get(f"{before}judge"):
            verdict = scores.get(f"{before}verdict") or scores.get(f"{before}fault") or "no verdict"
            yield f"    {verdict}, by {judge}: {show(_line(scores.get(f'{before}reason')))}"
    for field, value in _fields(scores):
        if field not in JUDGED and not field.startswith("second_"):
            yield f"    {field}: {show(value)}"


def _verdict(rubric: str, scores: Mapping[str, JsonValue]) -> str:
    """Say whether an answer is right by a rubric, with its score where that says more."""
    correct, status, score = scores.get("correct"), scores.get(STATUS), scores.get("score")
    word = "neither right nor wrong" if correct is None else "right" if correct else "wrong"
    if status in {FAILED, LEFT_OUT}:
        word = str(status)
    return f"  {rubric}: {word}" + (f", score {score:.4g}" if score not in {None, 0, 1} else "")


def _fields(scores: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """The columns of a row of scores that the verdict and the row itself do not say."""
    for field, value in scores.items():
        if value is not None and field not in KNOWN and not field.startswith(("_", "group:")):
            yield field, value


def row(run: Run, index: int) -> str:
    """One row with its history."""
    story = queries.story(run, index)
    if story is None:
        raise UsageError(f"--row {index}: {run.folder.path} has no such row")
    rubrics = queries.list_rubrics(run)
    lines = [f"row {index}"]
    lines += [f"  {name}: {_whole(value)}" for name, value in story.row.items()]
    for asking in story.askings:
        lines += [f"answer{_times(run, asking.replication)}", *_asking(asking)]
        for name, scores in asking.scores.items():
            lines.append(_verdict(rubrics.get(name, name), scores))
            lines += [f"    {field}: {_whole(value, 6)}" for field, value in _fields(scores)]
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
    for failed in sequence(asking.error, "tries"):
        status = "" if failed["status"] is None else f", status {failed['status']}"
        yield f"  failed {failed['time']}, {failed['replica']}{status}: {_short(failed['message'])}"


def state_text(folder: RunFolder) -> str:
    """The state of a run that has no verified output yet."""
    request = folder.request()
    title = f"{folder.path}: not done, {request.model}, {request.source.location}"
    return "\n".join([title, *stage_lines(folder)])


def _times(run: Run, replication: int) -> str:
    return f", replication {replication}" if len(run.manifest.replications) > 1 else ""


def _short(value: JsonValue) -> str:
    text = "nothing" if value in (None, "") else " ".join(readable(value).split())
    return shorten(text, SHORT)


def _line(value: JsonValue) -> str:
    """A text on one line."""
    return " ".join(str(value or "").split())


def _whole(value: JsonValue, indent: int = 4) -> str:
    text = value if isinstance(value, str) else to_text(value)
    return text.replace("\n", "\n" + " " * indent)


def _shorten(value: JsonValue) -> str:
    """The beginning and the end of a long value, with its length."""
    text = "nothing" if value in (None, "") else _whole(value)
    if len(text) <= MOST_CHARACTERS:
        return text
    beginning, end = text[: MOST_CHARACTERS * 2 // 3].rstrip(), text[-MOST_CHARACTERS // 3 :].lstrip()
    return f"{beginning}{SHORTENED}{end} ({count(len(text))} characters)"
