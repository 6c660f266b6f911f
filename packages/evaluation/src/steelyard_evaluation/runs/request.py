"""The request of a run, all resolved. The command line's options and a task file both become a `RunRequest`.

`make_identity` is the part of it that answers depend on: a folder belongs to one identity, and `run.yaml` in it is the
whole request, in the shape of `to_document`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import orjson

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.manifest import FileEntry
from steelyard_evaluation.engine.retry import WAIT_FOR_SERVER_SECONDS
from steelyard_evaluation.engine.stops import MOST_STOPS
from steelyard_evaluation.engine.table_files import Format
from steelyard_evaluation.runs.judge.spec import JudgeSpec
from steelyard_evaluation.runs.spending.prices import PriceSpec
from steelyard_schema.faults import faults_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Api = Literal["chat", "completions", "loglikelihood"]
Policy = Literal["Skip", "Abort"]

ENDPOINTS: Mapping[Api, str] = {
    "chat": "chat/completions",
    "completions": "completions",
    "loglikelihood": "completions",
}
API_KEY_ENV = "OPENAI_API_KEY"
SCHEMA_VERSION = "0.1"
KIND = "Run"
ENDPOINT = "endpoint"
"""The part of the identity that names the base URLs."""
OPTIONAL = ("settings", "prefix token", "max_length")
"""The parts of the identity that are there only where the request has them."""
HUB = "hf:"
"""Prefix of the location of a dataset of the hub; its files are named with their commit."""
TARGETS = ("target", "answer", "label")
"""The columns that hold the right answer, unless another one is named."""


_LEAST: Mapping[str, int] = {
    "replications": 1,
    "source.limit": 0,
    "source.sample": 0,
    "source.seed": 0,
    "prompt.prefix_token_id": 0,
    "prompt.max_length": 1,
    "serve.gpus": 0,
    "limits.concurrency": 1,
    "limits.timeout": 0,
    "limits.wait_for_server": 0,
    "limits.retries": 0,
    "limits.max_tokens_total": 1,
    "limits.max_cost": 0,
    "limits.prices.prompt": 0,
    "limits.prices.completion": 0,
    "limits.max_time": 0,
    "limits.max_stops": 0,
    "judges.prices.prompt": 0,
    "judges.prices.completion": 0,
}
"""The least of each number of a request, as of the option that sets it."""
_MOST: Mapping[str, int] = {"limits.timeout": 2**31 - 1, "limits.retries": 2**31 - 1}
"""The greatest of the numbers that become fields of an Evaluation; all others fit into 64 bits, as in JSON."""


class _Strict:
    """Read from a document, a field that there is not is a fault."""

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True)
class SourceSpec(_Strict):
    """The source of the rows, and the choice of those that are asked."""

    location: str
    """A path, or `hf:NAME[/CONFIG][@SPLIT]`."""
    format: Format | None = None
    """Format of the file; by default the ending of its name."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names that columns get: from the new name to the file's."""
    limit: int | None = None
    """The first rows only."""
    sample: int | None = None
    """Number of rows drawn with `seed` from what `limit` leaves."""
    seed: int = 0

    @property
    def stem(self) -> str:
        """The name that a folder of this source gets."""
        name = (
            self.location.removeprefix(HUB).partition("@")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
        )
        return name.partition(".")[0] or "run"


@dataclass(frozen=True)
class PromptSpec(_Strict):
    """The way from a row to its prompt, and from a prompt to its request."""

    api: Api = "chat"
    template: str | None = None
    """Jinja text over the row's columns; without one, `column` holds the prompt: text, or a list of messages."""
    template_name: str = "template"
    """The file that messages about the template name."""
    template_line: int = 1
    """The line of that file on which the template begins."""
    column: str = "prompt"
    system: str | None = None
    few_shot: tuple[Mapping[str, JsonValue], ...] = ()
    """Rows that are shown with their answers before each prompt."""
    target: str | None = None
    """The column of the answer in those rows; by default the first of TARGETS that they have."""
    sampling: Mapping[str, JsonValue] = field(default_factory=dict)
    """Parameters of the request as they are: temperature, max_tokens, stop, …"""
    settings: str | None = None
    """The column of each row's own parameters, as JSON; `sampling` wins."""
    prefix_token_id: int | None = None
    """The token before a text whose tokens all count; by default what the endpoint reports."""
    max_length: int | None = None
    """Tokens that the model takes at once, for texts that are counted in windows; by default what the endpoint
    reports."""


@dataclass(frozen=True)
class RubricSpec(_Strict):
    """One way to score: `exact-match`, or with arguments `exact-match?target=answer`."""

    reference: str


@dataclass(frozen=True)
class Limits(_Strict):
    """Concurrency, time limits, retries and caps. None of them changes an answer."""

    concurrency: int | None = None
    """Calls in flight per URL; None finds it out."""
    timeout: float = 600.0
    """Seconds for one call."""
    wait_for_server: float = WAIT_FOR_SERVER_SECONDS
    """Seconds for which a server may refuse connections before the run ends."""
    retries: int = 10
    """Tries of one row, and failures of a replica in a row."""
    max_tokens_total: int | None = None
    max_cost: float | None = None
    prices: PriceSpec | None = None
    max_time: float | None = None
    """Seconds."""
    max_stops: int = MOST_STOPS
    """Number of stop strings that the endpoint accepts; answers are cut at further ones here."""


@dataclass(frozen=True)
class ServeSpec(_Strict):
    """A server of the run's own, which runs as long as rows are asked. In the identity its URL stands for it."""

    folder: str
    """Path of the model."""
    runner: str | None = None
    gpus: int | None = None
    arguments: tuple[str, ...] = ()
    """Arguments of the server."""


@dataclass(frozen=True)
class RunRequest(_Strict):
    """One run."""

    source: SourceSpec
    model: str
    urls: tuple[str, ...]
    """Base URLs of the endpoint, each one a replica: together they are who is asked, part of the identity."""
    prompt: PromptSpec = PromptSpec()
    api_key_env: str = API_KEY_ENV
    """The environment variable that holds the key. The key itself is never part of a request."""
    replications: int = 1
    rubrics: tuple[RubricSpec, ...] = ()
    reducers: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ()
    cluster_by: str | None = None
    judges: tuple[JudgeSpec, ...] = ()
    """Models that are asked about every answer; the rubric `judge.Verdict` reads what they said."""
    limits: Limits = Limits()
    policy: Policy = "Skip"
    serve: ServeSpec | None = None
    same_model_at: tuple[str, ...] = ()
    """Base URLs to call in place of `urls`: the user says that the same model answers there now."""

    @property
    def base_urls(self) -> tuple[str, ...]:
        """The base URLs that are called."""
        return self.same_model_at or self.urls


def make_identity(request: RunRequest, files: Sequence[FileEntry]) -> dict[str, JsonValue]:
    """Return what the answers depend on, part by part; `files` are what the source was read from, by content."""
    source, prompt = request.source, request.prompt
    return {
        "source": [{"sha256": entry.sha256, "size": entry.size} for entry in files],
        "columns": dict(source.columns),
        "limit": source.limit,
        "sample": source.sample,
        # Settings that change no answer here must not change the identity, or the same run could not go on.
        "seed": source.seed if source.sample is not None else None,
        "api": prompt.api,
        "template": prompt.template,
        "column": prompt.column if prompt.template is None else None,
        "system": prompt.system,
        "few-shot rows": [dict(row) for row in prompt.few_shot],
        "few-shot target": prompt.target if prompt.few_shot else None,
        "sampling": dict(prompt.sampling),
        "model": request.model,
        # Sorted: replicas are equal, and their order on the command line changes nothing.
        ENDPOINT: sorted(request.urls),
        "replications": request.replications,
        # Only where it is given: the digests of earlier runs, which did not have these parts, stay what they
        # were.
        **({"revision": [entry.path for entry in files]} if source.location.startswith(HUB) else {}),
        **{
            name: value
            for name, value in zip(
                OPTIONAL, (prompt.settings, prompt.prefix_token_id, prompt.max_length), strict=True
            )
            if value is not None
        },
    }


def identity(request: RunRequest, files: Sequence[FileEntry]) -> str:
    """SHA-256 of `make_identity`, in hex. Keys, concurrency, caps and rubrics do not count."""
    return identity_digest(make_identity(request, files))


def identity_digest(parts: Mapping[str, JsonValue]) -> str:
    return hashlib.sha256(canonical(parts)).hexdigest()


def canonical(value: JsonValue) -> bytes:
    """The one way to write `value` as JSON; times and the like as text."""
    return orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY)


def to_document(request: RunRequest) -> dict[str, JsonValue]:
    """The request as plain data: the content of `run.yaml`."""
    document: dict[str, JsonValue] = orjson.loads(canonical(asdict(request)))
    document["rubrics"] = [rubric.reference for rubric in request.rubrics]
    return {"schemaVersion": SCHEMA_VERSION, "kind": KIND, **document}


def from_document(document: Mapping[str, JsonValue], name: str) -> RunRequest:
    """The inverse; UsageError names `name` and the field that is wrong."""
    from pydantic import ValidationError

    fields = {key: value for key, value in document.items() if key not in {"schemaVersion", "kind"}}
    rubrics = document.get("rubrics") or []
    named = isinstance(rubrics, list)
    fields["rubrics"] = [{"reference": name} for name in rubrics] if named else rubrics
    try:
        request = _reader().validate_python(fields)
    except ValidationError as error:
        raise UsageError(f"{name}, {faults_text(error)}") from error
    check_numbers(request, f"{name}, ")
    return request


def check_numbers(request: RunRequest, place: str = "") -> None:
    """UsageError names the number that is out of range, after the `place` of the request."""
    for where, least in _LEAST.items():
        most = _MOST.get(where, 2**63 - 1)
        for number in _numbers(request, where.split(".")):
            # Asked this way round, NaN is refused as well: YAML writes it `.nan`.
            if not least <= number <= most:
                raise UsageError(f"{place}{where}: should be a number from {least} to {most}, not {number}")


def _numbers(of: Any, path: Sequence[str]) -> list[float]:
    """The numbers at `path`: none where a part is not given, several of judges."""
    values = [of]
    for part in path:
        fields = [getattr(value, part) for value in values]
        # Of judges there are several; a part that may be left out is None.
        lists = [value if isinstance(value, tuple) else (value,) for value in fields]
        values = [value for values in lists for value in values if value is not None]
    return values


@cache
def _reader() -> "TypeAdapter[RunRequest]":
    """The reader of documents; to build it takes longer than to read hundreds."""
    from pydantic import TypeAdapter

    return TypeAdapter(RunRequest)
