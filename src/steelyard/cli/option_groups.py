"""Groups of options that several commands share: a parameter whose type is a dataclass stands for its fields."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command for Typer: each parameter that is a dataclass becomes options, in the order of its fields.

    The fields have Typer's annotations and defaults; the command gets an instance of the dataclass.
    """
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = parameter.annotation
            parameters += [
                _parameter(field.name, field.default, field.type) for field in fields(parameter.annotation)
            ]
        else:
            parameters.append(_parameter(name, parameter.default, parameter.annotation))

    @functools.wraps(command)
    def call_command(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    call_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    # Typer reads types from the annotations and all else from the signature.
    call_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call_command


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
    )
