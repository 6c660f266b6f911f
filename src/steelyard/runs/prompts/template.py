"""Prompt templates: Jinja over the columns of a row, in a sandbox, compiled once.

A column that is missing is a fault, never empty text; faults name the file, the line and the column.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from jinja2 import StrictUndefined, TemplateSyntaxError, UndefinedError, nodes
from jinja2 import Template as JinjaTemplate
from jinja2.sandbox import ImmutableSandboxedEnvironment

from steelyard.errors import UsageError
from steelyard.types import JsonValue

# Task files come from others: a template can reach no attribute of Python's and change no row.
_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


class TemplateFault(ValueError):
    """A row that the template cannot take."""


class Template:
    """One template: a function from a row to text."""

    def __init__(self, text: str, name: str = "template", line: int = 1) -> None:
        """UsageError when it is not Jinja; `line` is the first line of `text` in the file `name`."""
        self._name = name
        self._line = line
        try:
            self._tree = _ENVIRONMENT.parse(text)
            # Compiled under its file's name, so that the traceback of a fault holds its line.
            code = _ENVIRONMENT.compile(text, filename=name)
        except TemplateSyntaxError as error:
            raise UsageError(f"{self._place(error.lineno)}: {error.message}") from error
        template = JinjaTemplate.from_code(_ENVIRONMENT, code, _ENVIRONMENT.make_globals(None))
        self._render: Callable[[Mapping[str, JsonValue]], str] = template.render

    def __call__(self, row: Mapping[str, JsonValue]) -> str:
        try:
            return self._render(row)
        except Exception as error:  # noqa: BLE001 - whatever a template's expressions do
            self._fail(error, row)

    def check(self, columns: Sequence[str], location: str) -> None:
        """UsageError for a column that the rows do not have, unless the template asks whether they do."""
        for node in _read_names(self._tree):
            if node.name not in columns and node.name not in _ENVIRONMENT.globals:
                raise UsageError(
                    f"{self._place(node.lineno)}: {location} has no column {node.name!r}; "
                    f"it has {', '.join(columns)}"
                )

    def _fail(self, error: Exception, row: Mapping[str, JsonValue]) -> NoReturn:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == self._name
        ]
        message = str(error) or type(error).__name__
        if isinstance(error, UndefinedError) and message.endswith("is undefined"):
            message += f"; the row has {', '.join(row)}"
        raise TemplateFault(f"{self._place(lines[-1] if lines else 1)}: {message}") from error

    def _place(self, line: int | None) -> str:
        return f"{self._name}, line {(line or 1) + self._line - 1}"


def _read_names(tree: nodes.Template) -> list[nodes.Name]:
    """The names that have to come from the row, in order."""
    stored = {node.name for node in tree.find_all(nodes.Name) if node.ctx in {"store", "param"}}
    stored |= {node.name for node in tree.find_all(nodes.Macro)}
    asked_after = {id(name) for name in _asked_after(tree)}
    names = [node for node in tree.find_all(nodes.Name) if node.ctx == "load" and id(node) not in asked_after]
    guarded = {name.name for name in _asked_after(tree)}
    known = stored | guarded | {"loop", "self", "caller", "varargs", "kwargs"}
    return sorted((node for node in names if node.name not in known), key=lambda node: node.lineno)


def _asked_after(tree: nodes.Template) -> list[nodes.Name]:
    """`x is defined`, `x is undefined` and `x | default(…)`: there, a missing x is no fault."""
    tests = [test.node for test in tree.find_all(nodes.Test) if test.name in {"defined", "undefined"}]
    defaults = [call.node for call in tree.find_all(nodes.Filter) if call.name in {"default", "d"}]
    return [node for node in [*tests, *defaults] if isinstance(node, nodes.Name)]
