"""One CEL expression: compiled once, and run with values for `self` and `oldSelf`."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steelyard_local_kubernetes.apiserver.expressions import engine
from steelyard_local_kubernetes.apiserver.expressions.functions import SIZE, functions

if TYPE_CHECKING:
    from cel import Program as Compiled

_LITERAL = re.compile(
    r"""[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""",
    re.DOTALL,
)
_SIZE = re.compile(r"\bsize(?=\s*\()")


MAX_LENGTH = 4096  # the engine calls itself for every operator: 100,000 characters end the process
MAX_STEPS = 1_000_000  # of an evaluation, which cannot be ended once it has begun
_LOOPS = frozenset(["all", "exists", "exists_one", "existsOne", "filter", "map"])
_LOOP = re.compile(r"\.\s*([A-Za-z_]+)\s*(?=\()|[()]")
OVER_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class BadExpression(Exception):
    """One that is not CEL, or not of the CEL that this engine evaluates."""


class EvaluationFailed(Exception):
    """An evaluation without a result; `fault` says whether the expression does not fit the values' types."""

    def __init__(self, text: str, fault: bool = False) -> None:
        super().__init__(text)
        self.fault = fault


class Program:
    def __init__(self, source: str) -> None:
        if len(source) > MAX_LENGTH:
            raise BadExpression(f"too long: {len(source)} characters, {MAX_LENGTH} are taken here")
        engine.load()
        import cel

        self.source = source
        self.code = without_literals(source)
        self.nesting = loop_depth(self.code)
        try:
            self._program: Compiled = cel.compile(
                outside_literals(source, lambda code: _SIZE.sub(SIZE, code))
            )
        except ValueError as error:
            text = str(error).partition("ERROR: ")[2] or str(error)
            # The user wrote `size`, so messages name no other.
            raise BadExpression(_as_gos(text.replace(SIZE, "size"))) from error
        self.variables = frozenset(self._program.variables())
        self.functions = frozenset(
            function for function in self._program.functions() if function.isidentifier()
        )
        own = functions()
        self._functions = {name: own[name] for name in own if name.rpartition(".")[2] in self.functions}

    def run(self, values: dict[str, Any]) -> Any:
        import cel

        # Asked before it runs: the engine has no budget of its own, and an evaluation cannot be ended
        # from outside (one object cannot stop the embedded Kubernetes).
        if self.nesting and _most_items(values) ** self.nesting > MAX_STEPS:
            raise EvaluationFailed(OVER_BUDGET)
        try:
            return self._program.execute(cel.Context(values, self._functions) if self._functions else values)
        except KeyError as error:
            raise EvaluationFailed(f"no such key: {error.args[0]}", fault=True) from error
        except IndexError as error:
            raise EvaluationFailed("index out of bounds") from error
        except TypeError as error:
            raise EvaluationFailed("no such overload", fault=True) from error
        except RuntimeError as error:
            undefined = re.match(r"Undefined variable or function: '(.*?)'", str(error))
            text = f"undeclared reference to '{undefined[1]}'" if undefined else str(error).splitlines()[0]
            raise EvaluationFailed(text, fault=undefined is not None) from error
        except (ValueError, ArithmeticError) as error:
            raise EvaluationFailed(str(error).splitlines()[0]) from error


def _as_gos(text: str) -> str:
    """Return a message of the parser with its lines of the source as Go shows them."""
    return "\n".join(f" {line}" if line.startswith("|") else line for line in text.splitlines())


def fault_at(source: str, offset: int, fault: str) -> str:
    """Return the message of a fault at an offset of an expression, as a real server shows it."""
    before = source[:offset]
    line, column = before.count("\n"), offset - (before.rfind("\n") + 1)
    shown = source.split("\n")[line]
    return f"<input>:{line + 1}:{column + 1}: {fault}\n | {shown}\n | {'.' * column}^"


def loop_depth(code: str) -> int:
    """Count how deep loops over lists or maps are nested in an expression without its texts."""
    depth, most = 0, 0
    opened: list[bool] = []  # of each open parenthesis, whether it is a loop's
    loop = False
    for token in _LOOP.finditer(code):
        match token[0]:
            case "(":
                opened.append(loop)
                depth += loop
                most, loop = max(most, depth), False
            case ")":
                depth -= opened.pop() if opened else False
            case _:
                loop = token[1] in _LOOPS
    return most


def _most_items(value: Any) -> int:
    """The size of the largest list or map in a value."""
    most, waiting = 1, [value]
    while waiting:
        quote = waiting.pop()
        if isinstance(quote, dict | list):
            most = max(most, len(quote))
            waiting += quote.values() if isinstance(quote, dict) else quote
    return most


def outside_literals(source: str, change: Callable[[str], str]) -> str:
    """The expression with a change made outside of its texts only: texts stay as the user wrote them."""
    parts, end = [], 0
    for literal in _LITERAL.finditer(source):
        parts += [change(source[end : literal.start()]), literal[0]]
        end = literal.end()
    return "".join(parts) + change(source[end:])


def without_literals(source: str) -> str:
    """The expression with blank texts, so that names in it are names; all else stays at its place."""
    return _LITERAL.sub(lambda literal: f"'{' ' * (len(literal[0]) - 2)}'", source)
