"""The types and bounds of a job's spec, by the schema that its definition is made of.

API servers check them when a job is applied, but not all do: an older definition, or another operator's, lets pass
what no decision could read. `dl_job.py` asks here before anything else is made of a spec.
"""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from steelyard.operator.training.model import Invalid
from steelyard_common.types import Json, shorten
from steelyard_schema.training.dl_job import FailureRule
from steelyard_schema.training.kinds import TRAINING

DEPTH = 64
"""Objects and lists within one another; a Pod's own fields need about ten."""
SHOWN = 80
"""Characters of a wrong value that a message shows."""
_INSTANCE = re.compile(" or instance of [A-Za-z]+")
_RULES = TypeAdapter(list[FailureRule], config=ConfigDict(defer_build=True))


def check(resource: Json) -> Json:
    """The resource, its spec without nulls: they count as absent, as in v1.

    Raises Invalid for the first field of `spec` that is of another type or out of bounds. An unknown field is ignored:
    a later version may know it.
    """
    kind = TRAINING[resource["kind"]].spec
    spec = resource.get("spec")
    if not isinstance(spec, dict):
        raise Invalid(
            "spec", "is required" if spec is None else f"has to be an object, not {_show_value(spec)}"
        )
    present = _present(spec, 0, "spec")
    _check(kind, present, "spec")
    return {**resource, "spec": present}


def check_rules(rules: object, field: str) -> None:
    """Raises Invalid for failure rules, from a spec or an annotation, of other types than the schema's."""
    _check(_RULES, _present(rules, 0, field), field)


def _check(schema: type[BaseModel] | TypeAdapter[Any], value: object, field: str) -> None:
    try:
        if isinstance(schema, TypeAdapter):
            schema.validate_python(value, strict=True)
        else:
            schema.model_validate(value, strict=True)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_context=False):
            if fault["type"] != "extra_forbidden":
                where = field + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in fault["loc"])
                if fault["type"] == "missing":
                    raise Invalid(where, "is required") from None
                # Pydantic's words are Python's; a manifest has objects, and no instances.
                message = _INSTANCE.sub(
                    "", fault["msg"].removeprefix("Input ").replace("dictionary", "object")
                )
                raise Invalid(where, f"{message}, not {_show_value(fault['input'])}") from None


def _show_value(value: object) -> str:
    return shorten(repr(value), SHOWN)


def _present(value: object, depth: int, field: str) -> object:
    """The value without its nulls. Raises Invalid for one that is nested too deeply to be copied."""
    if depth > DEPTH:
        raise Invalid(field, f"is nested more than {DEPTH} deep")
    match value:
        case dict():
            return {
                name: _present(content, depth + 1, field)
                for name, content in value.items()
                if content is not None
            }
        case list():
            return [_present(item, depth + 1, field) for item in value]
        case _:
            return value
