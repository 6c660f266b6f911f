"""A hosted model: an OpenAI-compatible endpoint of a provider, with limits of rate and spending.

The published schema has no field for it, so it is written as the arguments of a runner: of kind `container`, with the
image `localhost/steelyard/runner-hosted`. Presets write these arguments, the API checks them, the runner reads them.
The provider's key is not among them: a service names the secret that holds it.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from steelyard_schema.bounds import NUMBER, Count, HttpUrl, Natural, Seconds, Word
from steelyard_schema.faults import fault_message

IMAGE_HOST, IMAGE_NAME = "localhost", "steelyard/runner-hosted"
SPENDING = "spending"
"""Key in `storage.inputs` of a workflow: the folder of the service's spending ledger."""
STOPPED = "service_stopped"
"""`error.type` of answers after which no further call to the service makes sense."""
_LONGEST_VALUE = 4096
_REFUSED_FIELDS = ("command", "env", "volumeMounts", "workingDir", "accelerator")
"""Fields of a runner that a hosted model may not have: they would start another program than the platform's."""

Money = Annotated[Decimal, Field(ge=0, le=1_000_000_000, max_digits=24, decimal_places=12), NUMBER]
Tokens = Annotated[int, Field(ge=1, le=10**15), NUMBER]


class HostedModelFault(ValueError):
    """A runner that is not a hosted model; `field` is the field of the runner that is at fault."""

    def __init__(self, field: str, fault: str) -> None:
        super().__init__(f"{field}: {fault}")
        self.field = field


class HostedModel(BaseModel):
    """Endpoint of a provider, and how much it may be asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    base_url: HttpUrl
    """Address of the provider's API, up to and with its version, such as https://HOST/v1."""
    model: Word = Field(min_length=1)
    """Name of the model at the provider."""
    requests_per_minute: Count | None = None
    """Most calls that begin within any 60 seconds."""
    concurrent_requests: Count | None = None
    """Most calls at the same time."""
    tokens_per_day: Tokens | None = None
    """Most tokens of a day of UTC, those read and those written together."""
    tokens_total: Tokens | None = None
    """Most tokens altogether."""
    cost_per_day: Money | None = None
    """Most money of a day of UTC."""
    cost_total: Money | None = None
    """Most money altogether."""
    input_price: Money | None = None
    """Price of a million tokens that the model reads."""
    output_price: Money | None = None
    """Price of a million tokens that the model writes."""
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")
    """Currency of prices and caps, for people."""
    max_output_tokens: Count = 4096
    """Most tokens of one answer; requests that name no limit are sent with this one."""
    output_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Parameter by which the provider's chats limit an answer."""
    parameters: tuple[Word, ...] = Field(default=(), max_length=100)
    """Parameters of requests that are passed on besides the usual ones, although they may change the price."""
    queue_seconds: Natural = 10
    """Longest time that a call waits for its turn before it is answered with 429."""
    timeout_seconds: Seconds = 600
    """Longest time without a byte from the provider."""

    @field_validator("base_url")
    @classmethod
    def _is_plain(cls, url: str) -> str:
        # Some providers take a key in the query. An entity shows its arguments to all who may read it.
        if "?" in url or "#" in url:
            raise ValueError("should have no query and no fragment; a key is a secret of the service")
        return url

    @model_validator(mode="after")
    def _prices(self) -> Self:
        if (self.input_price is None) != (self.output_price is None):
            raise ValueError("--input-price and --output-price belong together; one of them is missing")
        if self.input_price is None and (self.cost_total is not None or self.cost_per_day is not None):
            raise ValueError("a cap of cost needs --input-price and --output-price")
        return self

    @property
    def capped(self) -> bool:
        """Return whether spending has a cap."""
        caps = (self.tokens_per_day, self.tokens_total, self.cost_per_day, self.cost_total)
        return any(cap is not None for cap in caps)

    def arguments(self) -> list[str]:
        """Return the runner's arguments; defaults are left out."""
        return list(self._arguments())

    def _arguments(self) -> Iterator[str]:
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value == field.default:
                continue
            for item in value if isinstance(value, tuple) else (value,):
                yield from (_option(name), f"{item:f}" if isinstance(item, Decimal) else str(item))


def is_hosted(runner: Mapping[str, Any]) -> bool:
    """Return whether a service's runner, as JSON, stands for a hosted model."""
    image = runner.get("image") or {}
    return (
        runner.get("kind") == "container"
        and image.get("host") == IMAGE_HOST
        and image.get("name") == IMAGE_NAME
    )


def read_hosted_model(runner: Mapping[str, Any]) -> HostedModel:
    """Read the hosted model from a service's runner. Raises HostedModelFault, which names the field."""
    for name in _REFUSED_FIELDS:
        if runner.get(name):
            raise HostedModelFault(name, "a hosted model has none: the program is the platform's")
    if runner.get("nodes", 1) != 1:
        raise HostedModelFault("nodes", "a hosted model has 1")
    try:
        return HostedModel.model_validate(_values(runner.get("args") or ()))
    except ValidationError as error:
        faults = (_fault_text(fault) for fault in error.errors(include_url=False))
        raise HostedModelFault("args", "; ".join(faults)) from None


def _fault_text(fault: Any) -> str:
    names = [str(part) for part in fault["loc"][:1]]
    message = fault_message(fault, None)
    return f"{_option(names[0])}: {message}" if names else message


def _values(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the values by field; an option may be written as `--name value` or as `--name=value`."""
    values: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if not option.startswith("--") or name not in HostedModel.model_fields:
            known = ", ".join(map(_option, HostedModel.model_fields))
            raise HostedModelFault("args", f"{option[:80]}: there is no such option; there are {known}")
        if not equals:
            if not rest:
                raise HostedModelFault("args", f"{option}: its value is missing")
            value = rest.pop(0)
        if len(value) > _LONGEST_VALUE:
            raise HostedModelFault("args", f"{option}: its value is longer than {_LONGEST_VALUE} characters")
        if name == "parameters":
            values.setdefault(name, []).append(value)
        elif name in values:
            raise HostedModelFault("args", f"{option}: is given twice")
        else:
            values[name] = value
    return values


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
