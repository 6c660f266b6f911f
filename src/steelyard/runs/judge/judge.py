"""Judge models: each is asked about every answer of a verified run, in a run of its own beside it.

RUN/judges/<name>/ is that run: resumable, stored, on the same engine. RUN/judged/ is the run's output once more with
the verdicts in it, laid out as an output is, for the rubric `judge.Verdict`.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from steelyard.errors import UsageError
from steelyard.runs.context import World
from steelyard.runs.folder import Run, RunFolder, RunRow
from steelyard.runs.judge.output import write_judged
from steelyard.runs.judge.spec import JudgeSpec
from steelyard.runs.judge.verdicts import Verdicts, read_verdicts
from steelyard.runs.prompts.template import Template
from steelyard.runs.request import TARGETS, PromptSpec, RunRequest, SourceSpec
from steelyard.runs.spending.accounts import accounts, check_prices, others_of
from steelyard.types import JsonValue

QUESTIONS = "questions.jsonl"


@dataclass(frozen=True)
class Judged:
    """What became of the verdicts."""

    answers: int
    errors: int
    """Answers that a judge gave no verdict on that could be read: row errors."""
    stopped: str | None = None
    """Which cap was reached, in a sentence."""


async def judge(run: Run, specs: Sequence[JudgeSpec], world: World) -> Judged:
    """Have every answer judged by every judge; the same errors as `run`. Asked again, it goes on."""
    check_specs(specs)
    check_prices(replace(run.request, judges=tuple(specs)))
    world = world.limited(run.request.limits.max_time)
    found: list[Verdicts] = []
    for spec in specs:
        world.listener.step(f"judging by {spec.model} ({spec.name})")
        spent = await asyncio.to_thread(accounts, run.folder, replace(run.request, judges=tuple(specs)))
        stopped = await _ask(run, spec, replace(world, others=others_of(spent, spec.name)))
        if stopped is not None:
            return Judged(0, 0, stopped)
        found.append(await asyncio.to_thread(read_verdicts, run.folder.judge(spec.name), run, spec))
    if not specs:
        return Judged(0, 0)
    await write_judged(run, specs, found)
    answers = max(len(verdicts) for verdicts in found)
    return Judged(answers, sum(verdicts.errors for verdicts in found))


def check_specs(specs: Sequence[JudgeSpec]) -> None:
    """UsageError for judges that cannot be asked."""
    names = [spec.name for spec in specs]
    for spec in specs:
        if names.count(spec.name) > 1:
            raise UsageError(
                f"judge {spec.name}: there are several of this name; each has a folder of its own"
            )
        if spec.times < 1:
            raise UsageError(f"judge {spec.name}, times: is {spec.times}; should be 1 or more")
        Template(spec.settled().template, f"judge {spec.name}, template")


async def _ask(run: Run, spec: JudgeSpec, world: World) -> str | None:
    """The judge's own run; which cap it stopped at, or None."""
    from steelyard.runs.run import run as bring_to_its_end

    folder = run.folder.judge(spec.name)
    path = await asyncio.to_thread(_write_questions, run, spec, folder)
    urls = spec.urls or run.request.urls
    request = RunRequest(
        source=SourceSpec(str(path)),
        model=spec.model,
        urls=urls,
        same_model_at=run.request.same_model_at if urls == run.request.urls else (),
        prompt=PromptSpec(sampling=spec.sampling),
        api_key_env=spec.api_key_env,
        limits=replace(run.request.limits, prices=spec.prices),
        policy="Skip",
        replications=spec.times,
    )
    try:
        outcome = await bring_to_its_end(request, folder.path, world)
    except UsageError as error:
        hint = "; a judge that is asked something else needs another name" if folder.run_json.exists() else ""
        raise UsageError(f"judge {spec.name}: {error}{hint}") from error
    return outcome.stopped


def _write_questions(run: Run, spec: JudgeSpec, folder: RunFolder) -> Path:
    """What the judge is asked, a line for each answer: the same answers give the same bytes."""
    path = folder.path / QUESTIONS
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".#{QUESTIONS}")
    with scratch.open("wb") as file:
        file.writelines(question_lines(run, spec))
        empty = file.tell() == 0
        file.flush()
        os.fsync(file.fileno())
    if empty:
        scratch.unlink()
        raise UsageError(f"judge {spec.name}: the run has no answer to judge; every row is an error")
    scratch.replace(path)
    return path


def question_lines(run: Run, spec: JudgeSpec) -> Iterator[bytes]:
    """What the judge is asked, a line for each answer."""
    return (orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in _questions(run, spec))


def _questions(run: Run, spec: JudgeSpec) -> Iterator[dict[str, JsonValue]]:
    from steelyard.runs.prompts.render import renderer

    spec = spec.settled()
    template = Template(spec.template, f"judge {spec.name}, template")
    render = None
    for row in run.rows():
        said = (row.responses or [{}])[0].get("text")
        if said is None:
            continue
        if render is None:
            render = renderer(run.request.prompt, list(row.row), str(run.folder.path))
        asked: dict[str, JsonValue] = {
            **row.row,
            "row": row.row,
            "question": _text(render(row.row)),
            "response": said,
            "target": _target(spec, row.row),
            "criteria": spec.criteria,
            "grades": _either(sorted(spec.grades, key=lambda name: (-spec.grades[name], name))),
        }
        for order in _orders(spec, row, str(said)):
            try:
                prompt = template(asked | order)
            except ValueError as error:
                raise UsageError(f"row {row.index}: {error}") from error
            place = {"order": order["order"]} if order else {}
            yield {"index": row.index, "replication": row.replication, **place, "prompt": prompt}


def _orders(spec: JudgeSpec, row: RunRow, said: str) -> Iterator[dict[str, JsonValue]]:
    """What the prompts about one answer differ in: nothing, or the order in which a pair is shown."""
    if spec.against is None:
        yield {}
        return
    if spec.against not in row.row:
        there = ", ".join(row.row)
        raise UsageError(
            f"judge {spec.name}: should have answers in the column {spec.against!r}; there are {there}"
        )
    other = row.row[spec.against]
    if other is None:
        raise UsageError(f"judge {spec.name}: row {row.index} has no answer in the column {spec.against!r}")
    yield {"order": 0, "first": said, "second": str(other)}
    yield {"order": 1, "first": str(other), "second": said}


def _target(spec: JudgeSpec, row: Mapping[str, JsonValue]) -> str | None:
    names = [spec.target] if spec.target is not None else [name for name in TARGETS if name in row]
    value = row.get(names[0]) if names else None
    if isinstance(value, list):
        return " | ".join(map(str, value))
    return None if value is None else str(value)


def _text(prompt: JsonValue) -> str:
    """A prompt as text: of messages what was said, with who said it where there are several."""
    if not isinstance(prompt, list):
        return str(prompt)
    if len(prompt) == 1:
        return str(prompt[0].get("content"))
    return "\n\n".join(f"{message.get('role')}: {message.get('content')}" for message in prompt)


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
