"""Task files read into requests. All faults of a file are reported at once, each with its line and column."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

import orjson
from pydantic import ValidationError

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_common.whole_files import read_whole
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.request import Limits, PromptSpec, RubricSpec, RunRequest, SourceSpec
from steelyard_evaluation.runs.spending.prices import PriceSpec
from steelyard_evaluation.runs.tasks.checks import check
from steelyard_evaluation.runs.tasks.faults import list_faults
from steelyard_evaluation.runs.tasks.model import Judge, Prices, Task, TaskLimits, sampling_values
from steelyard_evaluation.runs.tasks.positions import Document, Fault, TextPosition, read

MOST_SHOTS = 1000


def load_task(path: Path) -> RunRequest:
    """UsageError has a line for each fault: `FILE:LINE:COLUMN: field: value: what it should be`."""
    task, document = parse(path)
    return _request(task, path, document)


def parse(path: Path) -> tuple[Task, Document]:
    """The file's fields, and where they stand."""
    try:
        text = read_whole(path).decode()
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not text in UTF-8") from error
    document = read(text)
    faults = list(document.faults)
    task = None
    if document.data is None and not faults:
        faults = [Fault(TextPosition(), (), "is empty; it should say data, template, rubrics, …")]
    elif not isinstance(document.data, dict) and not faults:
        faults = [Fault(TextPosition(), (), "should be an object of name: value")]
    elif document.data is not None:
        faults += check(document, path)
        try:
            task = Task.model_validate(document.data)
        except ValidationError as error:
            faults += list_faults(error, document)
    if faults or task is None:
        raise UsageError(fault_lines(path, faults))
    return task, document


def fault_lines(path: Path, faults: Sequence[Fault]) -> str:
    lines = list(dict.fromkeys(f"{path}:{fault}" for fault in sorted(faults, key=lambda fault: fault.place)))
    return "\n".join(lines) if len(lines) == 1 else "\n".join([f"{path}: {len(lines)} faults", *lines])


def _request(task: Task, path: Path, document: Document) -> RunRequest:
    data = task.data
    return RunRequest(
        source=SourceSpec(
            f"hf:{data.hub}" if data.hub else str(path.parent / str(data.path)),
            data.format,
            data.columns,
            data.limit,
            data.sample,
            data.seed,
        ),
        prompt=_prompt(task, path, document),
        model=task.model or "",
        urls=tuple(task.urls),
        api_key_env=task.api_key_env,
        replications=task.replications,
        rubrics=tuple(RubricSpec(_reference(rubric, task.target)) for rubric in task.rubrics),
        reducers=tuple(task.reducers),
        group_by=tuple(task.group_by),
        cluster_by=task.cluster_by,
        limits=_limits(task.limits),
        policy="Abort" if task.bad_rows == "abort" else "Skip",
        judges=tuple(_judge(judge, task) for judge in task.judges),
    )


def _prompt(task: Task, path: Path, document: Document) -> PromptSpec:
    return PromptSpec(
        api=task.api,
        template=task.template,
        template_name=str(path),
        template_line=document.blocks.get(("template",), 1),
        column=task.prompt or "prompt",
        system=task.system,
        few_shot=_shots(task, path, document),
        target=task.target,
        sampling=sampling_values(task.sampling),
    )


def _shots(task: Task, path: Path, document: Document) -> tuple[Mapping[str, JsonValue], ...]:
    if not isinstance(task.few_shot, str):
        return tuple(task.few_shot)
    from steelyard_evaluation.runs.prompts.inputs import open_rows

    try:
        rows = open_rows(SourceSpec(str(path.parent / task.few_shot)))
        if rows.count > MOST_SHOTS:
            raise UsageError(f"has {rows.count} rows; all of them would stand before each prompt")
    except UsageError as error:
        fault = Fault(document.place(("few_shot",)), ("few_shot",), str(error))
        raise UsageError(fault_lines(path, [fault])) from error
    names = task.data.columns
    return tuple(
        # Renamed as the data's columns are: the template of a task reads both alike.
        {**row, **{new: row[old] for new, old in names.items() if old in row}}
        for batch in rows.batches()
        for row in to_rows(batch)
    )


def _reference(rubric: str | dict[str, JsonValue], target: str | None) -> str:
    """`name?argument=value`, with the task's target for a rubric that takes one."""
    from steelyard_evaluation.report.rubrics.find import parse_arguments, takes

    if isinstance(rubric, str):
        name, _, query = rubric.partition("?")
        arguments = parse_arguments(query)
    else:
        name = str(rubric["name"])
        arguments = {
            key: value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
            for key, value in rubric.items()
            if key != "name"
        }
    if target is not None and "target" not in arguments and "target" in takes(name):
        arguments["target"] = target
    return f"{name}?{urlencode(arguments, quote_via=quote)}" if arguments else name


def _limits(limits: TaskLimits) -> Limits:
    return Limits(
        concurrency=None if limits.concurrency == "auto" else limits.concurrency,
        timeout=limits.timeout,
        wait_for_server=limits.wait_for_server,
        retries=limits.retries,
        max_tokens_total=limits.max_tokens_total,
        max_cost=limits.max_cost,
        prices=_prices(limits.prices),
        max_time=limits.max_time,
        max_stops=limits.max_stops,
    )


def _prices(prices: Prices | None) -> PriceSpec | None:
    return None if prices is None else PriceSpec(prices.prompt, prices.completion)


def _judge(judge: Judge, task: Task) -> JudgeSpec:
    fields = judge.model_dump(include={"template", "criteria", "grades", "parse"}, exclude_none=True)
    return JudgeSpec(
        model=judge.model,
        urls=tuple(judge.urls or task.urls),
        name=judge.name,
        api_key_env=judge.api_key_env,
        target=task.target,
        sampling=sampling_values(judge.sampling),
        against=judge.against,
        times=judge.times,
        prices=_prices(judge.prices),
        **fields,
    )
