"""Base of the typed configurations: unknown fields are refused, and one error has all faults, with their paths."""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from steelyard.clusters import rules
from steelyard.clusters.errors import BadConfig, Fault

_WORDS = {"extra_forbidden": "there is no such field", "missing": "is required"}


class Config(BaseModel):
    """A configuration that is checked when it is made. Raises BadConfig."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise BadConfig(type(self).__name__, list_faults(error)) from None

    def relations(self) -> Iterator[Fault]:
        """Yield the faults of fields that do not fit each other."""
        yield from ()

    @model_validator(mode="after")
    def _check_relations(self) -> "Config":
        if faults := [Fault(fault.field.strip("."), fault.message) for fault in self.relations()]:
            raise BadConfig(type(self).__name__, faults)
        return self


def list_faults(error: ValidationError) -> Iterator[Fault]:
    """Yield the faults of a validation, those of nested configurations with their whole path."""
    for item in error.errors(include_url=False, include_input=False):
        path = ".".join(map(str, item["loc"]))
        inner = item.get("ctx", {}).get("error")
        if isinstance(inner, BadConfig):
            for fault in inner.faults:
                yield Fault(".".join(part for part in (path, fault.field) if part), fault.message)
        else:
            yield Fault(path, _WORDS.get(item["type"]) or item["msg"])


def check_by(rule: Callable[[Any, str], Iterable[Fault]]) -> AfterValidator:
    """Return a validator by a rule of `rules.py`."""

    def check(value: Any) -> Any:
        if value is not None and (faults := list(rule(value, ""))):
            raise BadConfig("", (Fault(fault.field.strip("."), fault.message) for fault in faults))
        return value

    return AfterValidator(check)


def _environment(values: dict[str, str], path: str) -> Iterator[Fault]:
    for name in values:
        yield from rules.variable(name, path)


def _exact(value: Any) -> Any:
    """Return a fraction as text: a custom resource takes amounts as integers or text alone."""
    if isinstance(value, float):
        return str(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadConfig("", [Fault("", "should be an amount, such as 2, 0.5, 500m or 4Gi")])
    return value


ObjectName = Annotated[str, check_by(rules.name)]
DnsLabel = Annotated[str, check_by(rules.namespace)]
"""A name of at most 63 characters without dots, such as a namespace."""
LabelName = Annotated[str, check_by(rules.label_name)]
"""A name that an object carries as the value of a label, such as that of its queue."""
DataKey = Annotated[str, check_by(rules.data_key)]
Labels = Annotated[dict[str, str], check_by(rules.labels)]
Annotations = Annotated[dict[str, str], check_by(rules.annotations)]
Amount = Annotated[str | int | float, check_by(rules.quantity), BeforeValidator(_exact)]
Image = Annotated[str, check_by(rules.image)]
Environment = Annotated[dict[str, str], check_by(_environment)]
