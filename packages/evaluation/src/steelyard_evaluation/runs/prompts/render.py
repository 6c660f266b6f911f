"""Requests from rows: template, few-shot rows and system prompt, all compiled before the first row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.completions import likelihood_body
from steelyard_evaluation.engine.openai import (
    Encode,
    Message,
    chat_encoder,
    check_sampling,
    completions_encoder,
    within,
)
from steelyard_evaluation.engine.plan import BadInput
from steelyard_evaluation.engine.stops import MOST_STOPS
from steelyard_evaluation.report.rubrics.answer import to_text
from steelyard_evaluation.runs.request import TARGETS, PromptSpec
from steelyard_schema.columns import lacking, sentence

KIND, CONTEXT = "kind", "context"
"""Columns of rows that hold the endpoint's prompt themselves, and where a continuation begins."""
GENERATE, LIKELIHOOD, ROLLING = "generate_until", "loglikelihood", "loglikelihood_rolling"

Row = Mapping[str, JsonValue]
Render = Callable[[Row], JsonValue]
"""A row's prompt: text, or a list of messages. ValueError when there is none."""


def requests(
    spec: PromptSpec, model: str, columns: Sequence[str], location: str, most_stops: int = MOST_STOPS
) -> Callable[[Row], bytes]:
    """Bodies of requests; UsageError for what no row of `location` could be asked with."""
    render = renderer(spec, columns, location)
    encoders = _Encoders(spec, model, render, most_stops)
    encoders.get(None)  # a setting that no request can have is reported now

    def request(row: Row) -> bytes:
        try:
            prompt = render(row)
            if spec.api == "loglikelihood" and row[KIND] != GENERATE:
                return likelihood_body(model, prompt, row[CONTEXT], rolling=row[KIND] == ROLLING)
            return encoders.get(None if spec.settings is None else row[spec.settings])(prompt)
        except (ValueError, TypeError) as error:
            raise BadInput(str(error)) from error

    return request


@dataclass
class _Encoders:
    """The encoder of every distinct set of a row's own parameters."""

    spec: PromptSpec
    model: str
    render: Render
    most_stops: int
    made: dict[str | None, Encode] = field(default_factory=dict)

    def get(self, settings: str | None) -> Encode:
        if settings not in self.made:
            own = {} if settings is None else orjson.loads(settings)
            spec = replace(self.spec, sampling={**own, **self.spec.sampling})
            self.made[settings] = within(
                encoder(spec, self.model, self.render), spec.sampling, self.most_stops
            )
        return self.made[settings]


def check_rows(
    request: Callable[[dict[str, JsonValue]], bytes], rows: Sequence[dict[str, JsonValue]], location: str
) -> None:
    """UsageError when none of the first rows can be asked: then it is not the rows that are wrong."""
    faults = []
    # One row that can be asked is enough: single bad rows are row errors, and no reason to refuse the file.
    for row in rows:
        try:
            request(row)
            return
        except BadInput as error:
            faults.append(str(error))
    if faults:
        raise UsageError(f"{location}: none of the first {len(faults)} rows can be asked: {faults[0]}")


def renderer(spec: PromptSpec, columns: Sequence[str], location: str) -> Render:
    """Return a function from a row to its prompt."""
    if spec.template is not None:
        from steelyard_evaluation.runs.prompts.template import Template

        template = Template(spec.template, spec.template_name, spec.template_line)
        template.check(columns, location)
        return template
    name = spec.column
    if name not in columns:
        raise UsageError(
            f"{location}: has no column {name!r}; {sentence(lacking([name], columns))} "
            f"Say which one is the prompt (--map {name}=COLUMN), or make it of several (--template FILE)"
        )

    def column(row: Row) -> JsonValue:
        prompt = row[name]
        if prompt is None:
            raise ValueError(f"the column {name!r} is empty")
        # A prompt that is a number is asked as its file writes it.
        return orjson.dumps(prompt).decode() if isinstance(prompt, bool | int | float) else prompt

    return column


def check_parameters(sampling: Mapping[str, JsonValue]) -> None:
    """UsageError for a parameter that cannot be sent."""
    try:
        check_sampling(sampling)
    except ValueError as error:
        raise UsageError(f"--param: {error}") from error


def encoder(spec: PromptSpec, model: str, render: Render) -> Encode:
    """Prompts to bodies, with all that stands before every prompt."""
    check_parameters(spec.sampling)
    shots = [
        (_render_shot(render, row, number), _answer(spec, row, number))
        for number, row in enumerate(spec.few_shot)
    ]
    if spec.api == "chat":
        return chat_encoder(model, spec.sampling, _messages(spec.system, shots))
    return completions_encoder(model, spec.sampling, _text(spec.system, shots))


def _messages(system: str | None, shots: Sequence[tuple[JsonValue, str]]) -> list[Message]:
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for prompt, answer in shots:
        messages += prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
        messages.append({"role": "assistant", "content": answer})
    return messages


def _text(system: str | None, shots: Sequence[tuple[JsonValue, str]]) -> str:
    """Blocks with a blank line between them, and an answer one blank after its prompt."""
    blocks = [system] if system else []
    blocks += [f"{prompt} {answer}" for prompt, answer in shots]
    return "".join(f"{block}\n\n" for block in blocks)


def _render_shot(render: Render, row: Row, number: int) -> JsonValue:
    try:
        return render(row)
    except KeyError as error:
        raise UsageError(
            f"few-shot row {number + 1}: has no column {error}; {lacking(error.args, row)}"
        ) from error
    except ValueError as error:
        raise UsageError(f"few-shot row {number + 1}: {error}") from error


def _answer(spec: PromptSpec, row: Row, number: int) -> str:
    names = [spec.target] if spec.target is not None else [name for name in TARGETS if name in row]
    answer = row.get(names[0]) if names else None
    if answer is None:
        wanted = spec.target or " or ".join(TARGETS)
        raise UsageError(f"few-shot row {number + 1}: has no answer; its column should be {wanted}")
    return to_text(answer)
