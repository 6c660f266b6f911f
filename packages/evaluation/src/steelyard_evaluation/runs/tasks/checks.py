"""Checks that no field's type makes: files exist, templates are Jinja, rubrics exist.

They read the raw file, so that they find what they can however wrong the rest is.
"""

from collections.abc import Iterator
from pathlib import Path

from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.tasks.faults import misspelt, nearest, short
from steelyard_evaluation.runs.tasks.positions import Document, Fault
from steelyard_evaluation.runs.tasks.positions import Path as Steps
from steelyard_schema.rubric_names import alias, list_names


def check(document: Document, path: Path) -> list[Fault]:
    if not isinstance(document.data, dict):
        return []
    checks = (_data, _prompts, _few_shot, _rubrics, _limits, _judges)
    return [fault for check in checks for fault in check(document.data, document, path)]


def _data(task: dict[str, JsonValue], document: Document, path: Path) -> Iterator[Fault]:
    data = task.get("data")
    if not isinstance(data, dict):
        return
    if ("path" in data) == ("hub" in data):
        yield Fault(document.key(("data",)), ("data",), "should have one of path and hub")
    yield from _file(data.get("path"), ("data", "path"), document, path)


def _prompts(task: dict[str, JsonValue], document: Document, path: Path) -> Iterator[Fault]:
    if "template" in task and "prompt" in task:
        yield Fault(document.key(("prompt",)), ("prompt",), "there is a template already; give one of them")
    yield from _template(task.get("template"), ("template",), document)
    yield from misspelt(task.get("sampling"), ("sampling",), document)


def _few_shot(task: dict[str, JsonValue], document: Document, path: Path) -> Iterator[Fault]:
    shots = task.get("few_shot")
    yield from _file(shots if isinstance(shots, str) else None, ("few_shot",), document, path)


def _rubrics(task: dict[str, JsonValue], document: Document, path: Path) -> Iterator[Fault]:
    rubrics = task.get("rubrics")
    if not isinstance(rubrics, list) or not rubrics:
        return
    from steelyard_evaluation.report.rubrics.find import list_installed

    names = [point.name for point in list_installed()]
    known = list_names(names)
    for number, rubric in enumerate(rubrics):
        steps: Steps = ("rubrics", number)
        if isinstance(rubric, dict) and not isinstance(rubric.get("name"), str):
            yield Fault(document.place(steps), steps, "should have a name, such as {name: exact-match}")
            continue
        name = rubric["name"] if isinstance(rubric, dict) else rubric
        if not isinstance(name, str) or name.partition("?")[0] in known:
            continue
        near = nearest(name.partition("?")[0].replace("_", "-"), known)
        there = f"did you mean {near}?" if near else f"there are {', '.join(sorted(map(alias, names)))}"
        yield Fault(document.place(steps), steps, f"{name}: there is no such rubric; {there}")


def _limits(task: dict[str, JsonValue], document: Document, path: Path) -> Iterator[Fault]:
    limits = task.get("limits")
    if isinstance(limits, dict) and limits.get("max_cost") is not None and not limits.get("prices"):
        steps: Steps = ("limits", "max_cost")
        yield Fault(document.key(steps), steps, "needs limits.prices: {prompt: 0.15, completion: 0.60}")


def _judges(task: dict[str, JsonValue], document: Document, path: Path) -> Iterator[Fault]:
    judges = task.get("judges")
    if not isinstance(judges, list):
        return
    seen: set[str] = set()
    for number, judge in enumerate(judges):
        if not isinstance(judge, dict):
            continue
        steps: Steps = ("judges", number)
        yield from _template(judge.get("template"), (*steps, "template"), document)
        yield from misspelt(judge.get("sampling"), (*steps, "sampling"), document)
        name = judge.get("name", "judge")
        if name in seen:
            yield Fault(document.place((*steps, "name")), (*steps, "name"), f"{name}: another judge has it")
        seen.add(str(name))


def _file(value: JsonValue, steps: Steps, document: Document, path: Path) -> Iterator[Fault]:
    if isinstance(value, str) and value and not (path.parent / value).is_file():
        yield Fault(document.place(steps), steps, f"{short(value)}: there is no such file in {path.parent}")


def _template(text: JsonValue, steps: Steps, document: Document) -> Iterator[Fault]:
    """Jinja's own faults, on the line of the file."""
    if not isinstance(text, str):
        return
    from jinja2 import TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        ImmutableSandboxedEnvironment().parse(text)
    except RecursionError:
        yield Fault(document.place(steps), steps, "is nested too deep to be read")
    except TemplateSyntaxError as error:
        place = document.place(steps)
        # The parser counts lines from the beginning of the template, which in a block is below its key.
        line = document.blocks.get(steps, place.line) + (error.lineno or 1) - 1
        column = place.column if line == place.line else 1
        yield Fault(type(place)(line, column), steps, f"{error.message}")
