"""The text of values in templates: as a file in JSON has them, never as Python writes them.

`compiled.ENVIRONMENT` prints with it whatever stands between braces, is joined to a text, or goes through a filter.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from datetime import date, time
from decimal import Decimal
from functools import wraps
from string import Formatter
from typing import Any
from uuid import UUID

import orjson
from jinja2 import Undefined, nodes, pass_environment, pass_eval_context
from jinja2.filters import FILTERS, do_urlencode, do_xmlattr, make_attrgetter
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter

from steelyard_common.types import JsonValue

_OF_TEXT = [
    "capitalize",
    "center",
    "e",
    "escape",
    "forceescape",
    "format",
    "indent",
    "lower",
    "replace",
    "safe",
    "string",
    "striptags",
    "title",
    "trim",
    "truncate",
    "upper",
    "urlize",
    "wordcount",
    "wordwrap",
]
"""Filters of Jinja that make a text of their value."""
_OF_TEXTS = {"format", "replace"}
"""Filters that make texts of their arguments as well. Arguments of others are options: a false one stays false."""


def print_value(value: Any) -> Any:
    """Return a value as text: a text as it is, all others in JSON. Raises ValueError for a value without a text.

    An undefined value stays so: it raises where it is used as a text.
    """
    if isinstance(value, str | Undefined):
        return value
    if isinstance(value, date | time | Decimal | UUID):
        return _in_json(value)
    if value is None or isinstance(
        value, bool | int | float | bytes | Sequence | Mapping | AbstractSet | ValuesView
    ):
        return _json(value)
    raise _no_text(value)


def _no_text(value: object) -> ValueError:
    if isinstance(value, bytes):
        return ValueError("bytes have no text: make a column of texts of them (in Arrow: cast(string))")
    name = "macro" if isinstance(value, Macro) else "function" if callable(value) else type(value).__name__
    hint = ": call it with ()" if callable(value) else ": add | list" if isinstance(value, Iterable) else ""
    return ValueError(f"a {name} has no text{hint}")


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, default=_in_json, indent=indent)


def _in_json(value: Any) -> Any:
    """Return a value that JSON has no type for as requests have it."""
    if isinstance(value, date | time | UUID):
        return orjson.dumps(value).decode().strip('"')
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Sequence | AbstractSet | ValuesView) and not isinstance(value, bytes):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise _no_text(value)


class PrintingEnvironment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, which prints values as `printed` writes them."""

    intercepted_binops = frozenset({"%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(finalize=print_value, **options)
        self.filters |= {
            name: _wrap_filter(FILTERS[name], _argument if name in _OF_TEXTS else _identity)
            for name in _OF_TEXT
        }
        self.filters |= {"join": _join, "tojson": _json, "pprint": lambda value: _json(value, 2)}
        self.filters |= {"urlencode": _urlencode, "xmlattr": _xmlattr}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        # `a ~ b` makes texts of both by Python's str.
        for joined in tree.find_all(nodes.Concat):
            joined.nodes = [
                nodes.Filter(part, "string", [], [], None, None, lineno=joined.lineno)
                for part in joined.nodes
            ]
        return tree.set_environment(self)  # type: ignore[return-value]

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        return (
            left % _arguments(right)
            if isinstance(left, str)
            else super().call_binop(context, operator, left, right)
        )

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        if super().wrap_str_format(value) is None:
            return None

        def format_text(*args: Any, **kwargs: Any) -> str:
            by_name = value.__name__ == "format_map"
            return _Formatter(self).vformat(
                value.__self__, () if by_name else args, args[0] if by_name else kwargs
            )

        return format_text


class _Formatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        return Formatter.format_field(self, _argument(value), format_spec)


def _argument(value: Any) -> Any:
    """Return an argument of a format: numbers stay so, for `%d` and `{:.2f}`."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else print_value(value)


def _arguments(values: Any) -> Any:
    match values:
        case dict():
            return {name: _argument(value) for name, value in values.items()}
        case tuple():
            return tuple(map(_argument, values))
    return (_argument(values),)


def _identity(value: Any) -> Any:
    return value


def _wrap_filter(made: Callable[..., Any], argument: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a filter that gets the text of its value, and what `argument` makes of its arguments."""
    # Jinja marks those that get its context before the value.
    place = 1 if hasattr(made, "jinja_pass_arg") else 0

    @wraps(made)
    def filter_text(*args: Any, **kwargs: Any) -> Any:
        first, value, *rest = args if place else (None, *args)
        rest = [argument(value) for value in rest]
        by_name = {name: argument(value) for name, value in kwargs.items()}
        return made(*([first] if place else []), print_value(value), *rest, **by_name)

    return filter_text


@pass_environment
def _join(
    environment: Any, values: Iterable[JsonValue], d: str = "", attribute: str | int | None = None
) -> str:
    if attribute is not None:
        values = map(make_attrgetter(environment, attribute), values)
    return str(print_value(d)).join(str(print_value(value)) for value in values)


def _urlencode(value: Any) -> str:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return do_urlencode(print_value(value))
    pairs = value.items() if isinstance(value, Mapping) else value
    return do_urlencode([(print_value(name), print_value(part)) for name, part in pairs])


@pass_eval_context
def _xmlattr(context: Any, attributes: Mapping[str, Any], autospace: bool = True) -> str:
    # Those that are null are left out.
    return do_xmlattr(
        context,
        {name: None if value is None else print_value(value) for name, value in attributes.items()},
        autospace,
    )
