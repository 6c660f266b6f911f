"""The reference of task files in docs/tasks.md, from the models.

`python -m steelyard_evaluation.runs.tasks.reference` writes it.
"""

import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from steelyard_evaluation.runs.tasks.model import Data, Judge, Model, Prices, Sampling, Task, TaskLimits

PAGE = Path("docs/tasks.md")
BEGIN, END = "<!-- generated: begin -->\n", "<!-- generated: end -->\n"
_SECTIONS: tuple[tuple[str, type[Model]], ...] = (
    ("A task", Task),
    ("`data`", Data),
    ("`sampling`", Sampling),
    ("`limits`", TaskLimits),
    ("`limits.prices`", Prices),
    ("`judges`", Judge),
)
_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "object"}


def reference() -> str:
    """A table for each object of a task file."""
    sections = []
    for title, model in _SECTIONS:
        rows = [
            f"| `{name}` | {_time(field) or _kind(field.annotation)} | "
            f"{'needed' if field.is_required() else _default(field.default)} | {field.description} |\n"
            for name, field in model.model_fields.items()
        ]
        head = "| field | what it is | by default | |\n|---|---|---|---|\n"
        sections.append(f"### {title}\n\n{(model.__doc__ or '').strip()}\n\n{head}{''.join(rows)}")
    return "\n".join(sections)


def in_page(page: str) -> str:
    """The page with the reference between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{reference()}\n{END}{after}"


def _default(value: Any) -> str:
    if isinstance(value, BaseModel):
        fields = value.model_dump(exclude_unset=True)
        return f"`{fields}`".replace("'", "") if fields else ""
    if value in (None, "", [], {}) or value is PydanticUndefined:
        return ""
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _time(field: FieldInfo) -> str:
    return "time" if any("_seconds" in repr(item) for item in field.metadata) else ""


def _kind(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{argument}`" for argument in arguments)
    if origin is list:
        return f"list of {_kind(arguments[0])}"
    if origin is dict:
        return "object"
    if hasattr(annotation, "__metadata__"):
        return (
            "time"
            if any("_seconds" in repr(item) for item in annotation.__metadata__)
            else _kind(arguments[0])
        )
    if arguments:
        return " or ".join(
            dict.fromkeys(_kind(argument) for argument in arguments if argument is not type(None))
        )
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "object, below"
    return _NAMES.get(annotation, str(annotation))


if __name__ == "__main__":
    path = Path(sys.argv[1]) if sys.argv[1:] else PAGE
    path.write_text(in_page(path.read_text()))
