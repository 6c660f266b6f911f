"""The fields of a task file. Their descriptions are the reference in docs/tasks.md."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.patterns import Pattern
from steelyard_evaluation.engine.stops import MOST_STOPS
from steelyard_evaluation.engine.table_files import ENDINGS, Format
from steelyard_evaluation.runs import notation
from steelyard_evaluation.runs.request import API_KEY_ENV

Text = Annotated[str, Field(min_length=1)]


def _seconds(value: JsonValue) -> JsonValue:
    """`90`, `90s`, `2h30m` as seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return notation.positive(float(value))
        except OverflowError as error:
            raise ValueError("should be a number of seconds below 2**31") from error
    return notation.seconds(value if isinstance(value, str) else "")


def _pattern(value: str) -> str:
    try:
        groups = Pattern(value).groups
    except ValueError as error:
        raise ValueError(f"should be a regular expression: {error}") from error
    if "verdict" not in groups:
        raise ValueError("should have a group named verdict: (?P<verdict>…)")
    return value


Seconds = Annotated[float, BeforeValidator(_seconds, json_schema_input_type=float | str)]
Url = Annotated[str, AfterValidator(notation.base_url)]
Parse = Annotated[str, AfterValidator(_pattern)]
Share = Annotated[float, Field(ge=0, le=1)]
Folder = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True, allow_inf_nan=False)


class Data(Model):
    """The source of the rows, and the choice of those that are asked."""

    path: Text | None = Field(None, description=f"File with the rows, relative to the task file: {ENDINGS}.")
    hub: Text | None = Field(
        None,
        description="Dataset of the Hugging Face hub, in place of `path`: `NAME[/CONFIG][@SPLIT][#REVISION]`.",
    )
    format: Format | None = Field(None, description="Format of the file; by default the ending of its name.")
    columns: dict[Text, Text] = Field({}, description="Columns to rename: from the new name to the file's.")
    limit: PositiveInt | None = Field(None, description="Ask only the first rows, this many.")
    sample: PositiveInt | None = Field(
        None, description="Ask only this many rows, drawn at random with `seed`."
    )
    seed: Annotated[int, Field(ge=0)] = Field(0, description="Random seed of `sample`.")


class Sampling(Model):
    """Parameters of the request. Any other one is sent as it is."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, defer_build=True)
    temperature: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Sampling temperature; 0 takes the most likely token."
    )
    max_tokens: PositiveInt | None = Field(None, description="Maximum tokens per answer.")
    max_completion_tokens: PositiveInt | None = Field(
        None, description="The newer name of `max_tokens`, which some endpoints need."
    )
    top_p: Share | None = Field(
        None, description="Sample from the most likely tokens whose probabilities add up to this."
    )
    stop: Text | list[Text] | None = Field(None, description="Text at which an answer ends.")
    seed: int | None = Field(None, description="Random seed of the endpoint, if it takes one.")
    frequency_penalty: float | None = Field(None, description="Penalty for frequent tokens.")
    presence_penalty: float | None = Field(None, description="Penalty for tokens that have occurred.")
    response_format: dict[str, JsonValue] | None = Field(
        None, description="Form of the answer, such as `{type: json_object}`."
    )


class Prices(Model):
    """Prices per million tokens, in any currency."""

    prompt: Annotated[float, Field(ge=0)] = Field(description="Price of a million prompt tokens.")
    completion: Annotated[float, Field(ge=0)] = Field(description="Price of a million tokens of answers.")


class TaskLimits(Model):
    """Concurrency, time limits, retries and caps. Reaching a cap stops the run; run again, it goes on."""

    concurrency: PositiveInt | Literal["auto"] = Field(
        "auto", description="Maximum calls in flight per URL; `auto` adapts it to the endpoint."
    )
    timeout: Seconds = Field(600.0, description="Time limit of one call: seconds, or `90s`, `10m`.")
    wait_for_server: Seconds = Field(
        600.0, description="Time to wait for an endpoint that refuses connections."
    )
    retries: Annotated[int, Field(ge=0)] = Field(10, description="Maximum retries per row.")
    max_tokens_total: PositiveInt | None = Field(None, description="Stop at this number of tokens.")
    max_cost: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Stop at this cost; needs `prices`."
    )
    prices: Prices | None = Field(None, description="Prices of the model's tokens.")
    max_time: Seconds | None = Field(None, description="Stop after this time.")
    max_stops: int = Field(
        MOST_STOPS,
        ge=0,
        description="Number of stop texts that the endpoint accepts; answers are cut at further ones here.",
    )


class Judge(Model):
    """A model that grades the answers; the rubric `judge.Verdict` scores by its verdicts."""

    model: Text = Field(description="Name of the judge, as its endpoint knows it.")
    urls: list[Url] | None = Field(
        None, description="Base URLs of its endpoint; by default the task's.", min_length=1
    )
    name: Folder = Field("judge", description="Name of its own run, in `judges/<name>/`.")
    api_key_env: Text = Field(API_KEY_ENV, description="Environment variable that holds the API key.")
    template: Text | None = Field(
        None,
        description="Template of its prompt (Jinja) with `question`, `response`, `target`, `criteria`, `grades`.",
    )
    criteria: Text | None = Field(None, description="What makes an answer correct, in words for the judge.")
    grades: dict[Text, Share] | None = Field(
        None, description="Possible verdicts, and the score of each.", min_length=2
    )
    parse: Parse | None = Field(
        None,
        description="Regular expression that finds the verdict, in a group `verdict`; the last match counts.",
    )
    sampling: Sampling = Field(Sampling(temperature=0), description="Parameters of the judge's requests.")
    against: Text | None = Field(
        None,
        description="Column with another answer to the question; the judge compares the two, in both orders.",
    )
    times: Annotated[int, Field(ge=1, le=100)] = Field(
        1, description="Number of times that each answer, or each order of a pair, is judged."
    )
    prices: Prices | None = Field(None, description="Prices of the judge's tokens.")


class Task(Model):
    """One evaluation."""

    kind: Literal["Task"] = Field("Task", description="Kind of this file.")
    name: Folder | None = Field(
        None, description="Name of the run's folder; by default the name of the file."
    )
    description: str = Field("", description="Text for people.")
    data: Data = Field(description="The source of the rows, and the choice of those that are asked.")
    template: Text | None = Field(
        None, description="Template of the prompt (Jinja) over the row's columns: `Q: {{ question }}`."
    )
    prompt: Text | None = Field(
        None, description="Column with the whole prompt, text or messages, in place of `template`."
    )
    system: Text | None = Field(None, description="System prompt.")
    target: Text | None = Field(
        None, description="Column with the right answer; by default target, answer or label."
    )
    few_shot: Text | list[dict[str, JsonValue]] = Field(
        [],
        description="Example rows, shown with their answers before each prompt: a list, or a file next to this one.",
    )
    sampling: Sampling = Field(Sampling(), description="Parameters of the request.")
    api: Literal["chat", "completions"] = Field("chat", description="Endpoint to call.")
    model: Text | None = Field(None, description="Name of the model; `--model` wins.")
    urls: list[Url] = Field([], description="Base URLs of the endpoint; `--url` wins.")
    api_key_env: Text = Field(
        API_KEY_ENV, description="Environment variable that holds the API key, never the key itself."
    )
    replications: PositiveInt = Field(1, description="Number of answers per row.")
    rubrics: list[Text | dict[str, JsonValue]] = Field(
        [],
        description="How to score: `exact-match`, or `{name: numeric.Close, rel: 0.01}`; the first leads the report.",
    )
    reducers: list[Text] = Field(
        [], description="How to combine the scores of a row's answers: mean, majority, best, pass@k."
    )
    group_by: list[Text] = Field([], description="Also report the scores for each value of these columns.")
    cluster_by: Text | None = Field(None, description="Column that says which rows are not independent.")
    limits: TaskLimits = Field(TaskLimits(), description="Concurrency, time limits, retries and caps.")
    bad_rows: Literal["skip", "abort"] = Field(
        "skip", description="What to do after a row that the endpoint refuses."
    )
    judges: list[Judge] = Field([], description="Models that grade the answers.", max_length=8)


def sampling_values(sampling: Sampling) -> Mapping[str, JsonValue]:
    """Return the parameters that have a value."""
    return {name: value for name, value in sampling.model_dump().items() if value is not None}
