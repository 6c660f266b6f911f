"""The fields of a task file. Their descriptions are the reference in docs/tasks.md."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt

from steelyard.evaluation.stops import MOST_STOPS
from steelyard.runs import notation
from steelyard.runs.request import API_KEY_ENV, Format
from steelyard.types import JsonValue

Text = Annotated[str, Field(min_length=1)]


def _seconds(value: JsonValue) -> JsonValue:
    """`90`, `90s`, `2h30m` as seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return notation.positive(float(value))
    return notation.seconds(value if isinstance(value, str) else "")


def _pattern(value: str) -> str:
    try:
        compiled = re.compile(value)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    if "verdict" not in compiled.groupindex:
        raise ValueError("should have a group named verdict: (?P<verdict>…)")
    return value


Seconds = Annotated[float, BeforeValidator(_seconds, json_schema_input_type=float | str)]
Url = Annotated[str, AfterValidator(notation.base_url)]
Parse = Annotated[str, AfterValidator(_pattern)]
Share = Annotated[float, Field(ge=0, le=1)]
Folder = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class Data(Model):
    """Where the rows come from, and which of them are asked."""

    path: Text | None = Field(
        None, description="A file beside the task file: .parquet, .arrow, .jsonl or .csv."
    )
    hub: Text | None = Field(
        None,
        description="Instead of `path`: a dataset of the Hugging Face hub, `NAME[/CONFIG][@SPLIT][#REVISION]`.",
    )
    format: Format | None = Field(None, description="By default what the file's name ends in.")
    columns: dict[Text, Text] = Field({}, description="Columns to rename: from the new name to the file's.")
    limit: PositiveInt | None = Field(None, description="The first rows only.")
    sample: PositiveInt | None = Field(None, description="So many rows, drawn at random with `seed`.")
    seed: Annotated[int, Field(ge=0)] = Field(0, description="For `sample`.")


class Sampling(Model):
    """Parameters of the request. Any other one is sent as it is."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, defer_build=True)
    temperature: Annotated[float, Field(ge=0)] | None = Field(None, description="0 for the likeliest answer.")
    max_tokens: PositiveInt | None = Field(None, description="Of one answer.")
    max_completion_tokens: PositiveInt | None = Field(
        None, description="The newer name that some endpoints want."
    )
    top_p: Share | None = Field(None, description="Only the likeliest tokens that make up this share.")
    stop: Text | list[Text] | None = Field(None, description="Text at which an answer ends.")
    seed: int | None = Field(None, description="Sent to the endpoint, where it takes one.")
    frequency_penalty: float | None = Field(None, description="Against words said often.")
    presence_penalty: float | None = Field(None, description="Against words said at all.")
    response_format: dict[str, JsonValue] | None = Field(None, description="Such as `{type: json_object}`.")


class Prices(Model):
    """What a million tokens cost, in any currency."""

    prompt: Annotated[float, Field(ge=0)] = Field(description="Of prompts.")
    completion: Annotated[float, Field(ge=0)] = Field(description="Of answers.")


class TaskLimits(Model):
    """How hard, how long and for how much it is tried. Reaching a cap stops the run; run again, it goes on."""

    concurrency: PositiveInt | Literal["auto"] = Field(
        "auto", description="Calls in flight per URL, at most."
    )
    timeout: Seconds = Field(600.0, description="For one call: seconds, or `90s`, `10m`.")
    wait_for_server: Seconds = Field(600.0, description="While it refuses connections.")
    retries: Annotated[int, Field(ge=0)] = Field(10, description="Of one row.")
    max_tokens_total: PositiveInt | None = Field(None, description="Stop at so many tokens.")
    max_cost: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Stop at this cost; needs `prices`."
    )
    prices: Prices | None = Field(None, description="What a million tokens cost.")
    max_time: Seconds | None = Field(None, description="Stop after this long.")
    max_stops: int = Field(
        MOST_STOPS, ge=0, description="Stops that the endpoint takes; answers are cut at further ones here."
    )


class Judge(Model):
    """A model that grades the answers; the rubric `judge.Verdict` scores by its verdicts."""

    model: Text = Field(description="The judge's name, as its endpoint knows it.")
    urls: list[Url] | None = Field(None, description="Its endpoint; by default the task's own.", min_length=1)
    name: Folder = Field("judge", description="Its calls are a run of their own in `judges/<name>/`.")
    api_key_env: Text = Field(API_KEY_ENV, description="The environment variable with the key.")
    template: Text | None = Field(
        None,
        description="Its prompt as Jinja text, of `question`, `response`, `target`, `criteria`, `grades`.",
    )
    criteria: Text | None = Field(None, description="What makes an answer good.")
    grades: dict[Text, Share] | None = Field(
        None, description="What a verdict may be, and what it is worth.", min_length=2
    )
    parse: Parse | None = Field(
        None, description="A regular expression with a group `verdict`; the last match counts."
    )
    sampling: Sampling = Field(Sampling(temperature=0), description="Parameters of the judge's requests.")
    against: Text | None = Field(
        None,
        description="The column of another answer to each question: which one is better, in both orders?",
    )
    times: Annotated[int, Field(ge=1, le=100)] = Field(
        1, description="How often each answer, or each order of a pair, is judged."
    )
    prices: Prices | None = Field(None, description="What a million of its tokens cost.")


class Task(Model):
    """One evaluation."""

    kind: Literal["Task"] = Field("Task", description="What this file is.")
    name: Folder | None = Field(
        None, description="What the run's folder is called; by default the file's name."
    )
    description: str = Field("", description="For people.")
    data: Data = Field(description="Where the rows come from, and which of them are asked.")
    template: Text | None = Field(
        None, description="The prompt as Jinja text over the row's columns: `Q: {{ question }}`."
    )
    prompt: Text | None = Field(
        None, description="Instead of `template`: the column that holds the prompt, text or messages."
    )
    system: Text | None = Field(None, description="System prompt.")
    target: Text | None = Field(
        None, description="The column of the right answer; by default target, answer or label."
    )
    few_shot: Text | list[dict[str, JsonValue]] = Field(
        [], description="Rows shown with their answers before each prompt: a list, or a file beside this one."
    )
    sampling: Sampling = Field(Sampling(), description="Parameters of the request.")
    api: Literal["chat", "completions"] = Field("chat", description="Which endpoint is asked.")
    model: Text | None = Field(None, description="The model's name; `--model` wins.")
    urls: list[Url] = Field([], description="Base URLs of the endpoint; `--url` wins.")
    api_key_env: Text = Field(
        API_KEY_ENV, description="The environment variable with the key, never the key itself."
    )
    replications: PositiveInt = Field(1, description="How often each row is asked.")
    rubrics: list[Text | dict[str, JsonValue]] = Field(
        [],
        description="How to score: `exact-match`, or `{name: numeric.Close, rel: 0.01}`; the first one leads.",
    )
    reducers: list[Text] = Field([], description="Over replications: mean, majority, best, pass@k.")
    group_by: list[Text] = Field([], description="Scores by these columns, too.")
    cluster_by: Text | None = Field(None, description="Rows of one value depend on each other.")
    limits: TaskLimits = Field(TaskLimits(), description="How hard, how long and for how much it is tried.")
    bad_rows: Literal["skip", "abort"] = Field("skip", description="What to do with a row that is refused.")
    judges: list[Judge] = Field([], description="Models that grade the answers.", max_length=8)


def sent(sampling: Sampling) -> Mapping[str, JsonValue]:
    """The parameters that were given."""
    return {name: value for name, value in sampling.model_dump().items() if value is not None}
