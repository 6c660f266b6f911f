"""One CEL expression: compiled once, and run with values for `self` and `oldSelf`."""

import re
from typing import TYPE_CHECKING, Any

from steelyard.local.apiserver.expressions import engine
from steelyard.local.apiserver.expressions.functions import SIZE, functions

if TYPE_CHECKING:
    from cel import Program as Compiled

_LITERAL = re.compile(
    r"""[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""",
    re.DOTALL,
)
_SIZE = re.compile(r"\bsize(?=\s*\()")


class BadExpression(Exception):
    """One that is not CEL, or not of the CEL that this engine evaluates."""


class Failed(Exception):
    """An evaluation without a result; `fault` says whether the expression does not fit the values' types."""

    def __init__(self, text: str, fault: bool = False) -> None:
        super().__init__(text)
        self.fault = fault


class Program:
    def __init__(self, source: str) -> None:
        engine.load()
        import cel

        self.source = source
        self.code = without_literals(source)
        try:
            self._program: Compiled = cel.compile(_outside_literals(source, _SIZE, SIZE))
        except ValueError as error:
            text = str(error).partition("ERROR: ")[2] or str(error)
            raise BadExpression(text.splitlines()[0].replace(SIZE, "size")) from error
        self.variables = frozenset(self._program.variables())
        self.functions = frozenset(each for each in self._program.functions() if each.isidentifier())
        own = functions()
        self._functions = {name: own[name] for name in own if name.rpartition(".")[2] in self.functions}

    def run(self, values: dict[str, Any]) -> Any:
        import cel

        try:
            return self._program.execute(cel.Context(values, self._functions) if self._functions else values)
        except KeyError as error:
            raise Failed(f"no such key: {error.args[0]}", fault=True) from error
        except IndexError as error:
            raise Failed("index out of bounds") from error
        except TypeError as error:
            raise Failed("no such overload", fault=True) from error
        except RuntimeError as error:
            undefined = re.match(r"Undefined variable or function: '(.*?)'", str(error))
            text = f"undeclared reference to '{undefined[1]}'" if undefined else str(error).splitlines()[0]
            raise Failed(text, fault=undefined is not None) from error
        except (ValueError, ArithmeticError) as error:
            raise Failed(str(error).splitlines()[0]) from error


def without_literals(source: str) -> str:
    """The expression with empty texts, so that names in it are names."""
    return _LITERAL.sub("''", source)


def _outside_literals(source: str, pattern: "re.Pattern[str]", replacement: str) -> str:
    parts, end = [], 0
    for literal in _LITERAL.finditer(source):
        parts += [pattern.sub(replacement, source[end : literal.start()]), literal[0]]
        end = literal.end()
    return "".join(parts) + pattern.sub(replacement, source[end:])
