"""Jinja templates in a sandbox, compiled once."""

import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from jinja2 import StrictUndefined, TemplateSyntaxError, UndefinedError
from jinja2 import Template as JinjaTemplate

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.runs.prompts.printing import PrintingEnvironment

TEXT_CHARACTERS = 16 << 20
"""Characters of one prompt."""


class TemplateFault(ValueError):
    """A row that the template cannot take."""


class _Environment(PrintingEnvironment):
    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """Join the parts of a text. Raises ValueError as soon as there are too many."""
        texts: list[str] = []
        size = 0
        for part in parts:
            size += len(part)
            if size > TEXT_CHARACTERS:
                raise ValueError(f"the text would have more than {TEXT_CHARACTERS} characters")
            texts.append(part)
        return "".join(texts)


# Task files come from others: a template can reach no attribute of Python's and change no row.
ENVIRONMENT = _Environment(undefined=StrictUndefined, autoescape=False)


class CompiledTemplate:
    """A function from a row to text, which runs in this process."""

    def __init__(self, text: str, name: str, line: int) -> None:
        """UsageError when it is not Jinja."""
        self._name, self._line = name, line
        try:
            # Compiled under its file's name, so that the traceback of a fault holds its line.
            code = ENVIRONMENT.compile(text, filename=name)
        except TemplateSyntaxError as error:
            raise UsageError(f"{place(name, line, error.lineno)}: {error.message}") from error
        template = JinjaTemplate.from_code(ENVIRONMENT, code, ENVIRONMENT.make_globals(None))
        self._render: Callable[[Mapping[str, JsonValue]], str] = template.render

    def __call__(self, row: Mapping[str, JsonValue]) -> str:
        try:
            return self._render(row)
        except Exception as error:  # noqa: BLE001 - whatever a template's expressions do
            self._fail(error, row)

    def _fail(self, error: Exception, row: Mapping[str, JsonValue]) -> NoReturn:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == self._name
        ]
        message = str(error) or type(error).__name__
        if isinstance(error, UndefinedError) and message.endswith("is undefined"):
            message += f"; the row has {', '.join(row)}"
        raise TemplateFault(
            f"{place(self._name, self._line, lines[-1] if lines else 1)}: {message}"
        ) from error


def place(name: str, first: int, line: int | None) -> str:
    """Return the file and the line of a place in a template that begins on the line `first`."""
    return f"{name}, line {(line or 1) + first - 1}"
