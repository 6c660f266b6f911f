"""Prompt templates: Jinja over the columns of a row, in a sandbox, compiled once.

A column that is missing is a fault, never empty text; faults name the file, the line and the column.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from jinja2 import TemplateSyntaxError, nodes

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.prompts.compiled import ENVIRONMENT, CompiledTemplate, TemplateFault, place
from steelyard_evaluation.runs.prompts.confined import ConfinedTemplate
from steelyard_schema.columns import lacking

__all__ = ["Template", "TemplateFault"]

_PLAIN = frozenset(
    [
        "Template",
        "Output",
        "TemplateData",
        "Name",
        "Const",
        "If",
        "CondExpr",
        "Getattr",
        "Getitem",
        "Slice",
        "Compare",
        "Operand",
        "And",
        "Or",
        "Not",
        "Test",
        "Filter",
        "Call",
        "For",
        "Concat",
        "Add",
        "Sub",
        "Tuple",
    ]
)
_PLAIN_FILTERS = frozenset(
    [
        "trim",
        "upper",
        "lower",
        "title",
        "capitalize",
        "e",
        "escape",
        "safe",
        "length",
        "count",
        "first",
        "last",
        "default",
        "d",
        "string",
        "list",
        "items",
        "sort",
        "reverse",
        "unique",
        "tojson",
        "abs",
        "join",
    ]
)
_PLAIN_METHODS = frozenset(
    [
        "strip",
        "lstrip",
        "rstrip",
        "upper",
        "lower",
        "title",
        "capitalize",
        "items",
        "keys",
        "values",
        "split",
        "startswith",
        "endswith",
        "removeprefix",
        "removesuffix",
    ]
)


class Template:
    """One template: a function from a row to text.

    A template whose work grows with its row alone runs here. One that can multiply (products, loops in loops, macros)
    runs in a process of its own, with a limit of time and memory.
    """

    def __init__(self, text: str, name: str = "template", line: int = 1) -> None:
        """UsageError when it is not Jinja; `line` is the first line of `text` in the file `name`."""
        self._name, self._line = name, line
        try:
            self._tree = ENVIRONMENT.parse(text)
            plain = _is_plain(self._tree)
        except TemplateSyntaxError as error:
            raise UsageError(f"{self._place(error.lineno)}: {error.message}") from error
        except RecursionError:
            raise UsageError(f"{self._place(1)}: the template is nested too deep") from None
        self._render = CompiledTemplate(text, name, line) if plain else ConfinedTemplate(text, name, line)

    def __call__(self, row: Mapping[str, JsonValue]) -> str:
        return self._render(row)

    def check(self, columns: Sequence[str], location: str) -> None:
        """UsageError for a column that the rows do not have, unless the template asks whether they do."""
        for node in _read_names(self._tree):
            if node.name not in columns and node.name not in ENVIRONMENT.globals:
                raise UsageError(
                    f"{self._place(node.lineno)}: {location} has no column {node.name!r}; "
                    f"{lacking([node.name], columns)}"
                )

    def _place(self, line: int | None) -> str:
        return place(self._name, self._line, line)


def check_texts(text: str, name: str, line: int, columns: Mapping[str, pa.DataType], location: str) -> None:
    """UsageError for a column that a template reads though its values have no text."""
    for node in _read_names(ENVIRONMENT.parse(text)):
        kind = columns.get(node.name, pa.null())
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
            raise UsageError(
                f"{place(name, line, node.lineno)}: the column {node.name!r} of {location} is of type {kind}; "
                "bytes have no text: make a column of texts of them (in Arrow: cast(string))"
            )


def _is_plain(tree: nodes.Template) -> bool:
    """Return whether the work grows with the row alone: nothing is repeated but by one loop over what a row has."""
    return all(type(node).__name__ in _PLAIN and _allows(node) for node in _all(tree)) and not any(
        inner is not loop for loop in tree.find_all(nodes.For) for inner in loop.find_all(nodes.For)
    )


def _all(node: nodes.Node) -> list[nodes.Node]:
    return [node, *(inner for child in node.iter_child_nodes() for inner in _all(child))]


def _allows(node: nodes.Node) -> bool:
    constant = all(isinstance(argument, nodes.Const) for argument in _arguments(node))
    match node:
        case nodes.Filter():
            return node.name in _PLAIN_FILTERS and constant and (node.name == "join" or not _numbers(node))
        case nodes.Call():
            named = isinstance(node.node, nodes.Getattr) and node.node.attr in _PLAIN_METHODS
            return named and constant
        case nodes.For():
            return not node.recursive
    return True


def _arguments(node: Any) -> list[nodes.Node]:
    if not isinstance(node, nodes.Filter | nodes.Call):
        return []
    # What is not a constant is not plain, and a keyword's value counts like any other.
    given = [*node.args, *(keyword.value for keyword in node.kwargs)]
    return [*given, *(part for part in (node.dyn_args, node.dyn_kwargs) if part is not None)]


def _numbers(node: nodes.Filter) -> bool:
    """Return whether an argument is a number: `tojson(indent=…)` and its like make as much as it says."""
    return any(isinstance(getattr(argument, "value", None), int) for argument in _arguments(node))


def _read_names(tree: nodes.Template) -> list[nodes.Name]:
    """The names that have to come from the row, in order."""
    stored = {node.name for node in tree.find_all(nodes.Name) if node.ctx in {"store", "param"}}
    stored |= {node.name for node in tree.find_all(nodes.Macro)}
    asked_after = {id(name) for name in _optional_names(tree)}
    names = [node for node in tree.find_all(nodes.Name) if node.ctx == "load" and id(node) not in asked_after]
    guarded = {name.name for name in _optional_names(tree)}
    known = stored | guarded | {"loop", "self", "caller", "varargs", "kwargs"}
    return sorted((node for node in names if node.name not in known), key=lambda node: node.lineno)


def _optional_names(tree: nodes.Template) -> list[nodes.Name]:
    """`x is defined`, `x is undefined` and `x | default(…)`: there, a missing x is not a fault."""
    tests = [test.node for test in tree.find_all(nodes.Test) if test.name in {"defined", "undefined"}]
    defaults = [call.node for call in tree.find_all(nodes.Filter) if call.name in {"default", "d"}]
    return [node for node in [*tests, *defaults] if isinstance(node, nodes.Name)]
