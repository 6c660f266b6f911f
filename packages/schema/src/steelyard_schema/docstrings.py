"""Descriptions of fields, read from the docstrings below them in the source, when a JSON schema asks for them.

pydantic can do this too (`use_attribute_docstrings`), but when a class is made: it parses the source of each model
of every program that imports one, which took half of the time of such an import. Only those who write a schema read
the descriptions.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler


def describe(model: type[BaseModel], schema: dict[str, Any], handler: GetJsonSchemaHandler) -> None:
    """Give every property of `schema`, the JSON schema of `model`, the docstring of its field as its description.

    A description that the field has already stays, and a reference to a type that says the same gets none.
    """
    properties = schema.get("properties", {})
    for name, field in model.model_fields.items():
        written = properties.get(field.alias, properties.get(name))
        docstring = find_docstring(model, name)
        if docstring is None or written is None:
            continue
        description = written.get("description")
        with suppress(LookupError):  # raised where the type refers to itself, and is not written yet
            description = description or handler.resolve_ref_schema(written).get("description")
        if docstring != description:
            written.setdefault("description", docstring)


def find_docstring(model: type[BaseModel], field: str) -> str | None:
    """The docstring of a field, where the class that declares it last has one."""
    # The nearest class first: a subclass may declare a field again with words of its own.
    for base in model.__mro__:
        if field in inspect.get_annotations(base):
            return _docstrings(base.__module__).get(base.__qualname__, {}).get(field)
    return None


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """The docstrings of a module's fields, by class; none where the source is not there."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError):  # a class of an interactive session has neither module nor source
        return {}
    return dict(_classes(tree, ""))


def _classes(scope: ast.AST, prefix: str) -> Iterator[tuple[str, dict[str, str]]]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, dict(_fields(node))
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(node, f"{prefix}{node.name}.<locals>.")


def _fields(model: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, after in pairwise(model.body):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(docstring))),
            ):
                yield name, inspect.cleandoc(docstring)
