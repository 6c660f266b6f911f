"""A planted bug: a change of one function, described so that it survives moves, renamings elsewhere and formatting.

The changed code is named by file and qualified name, and located by its tokens, so that line numbers, neighbours,
line breaks and trailing commas do not matter.
"""

import ast
import io
import textwrap
import tokenize
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

INSIGNIFICANT = {
    tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER,
}  # fmt: skip


class DoesNotApplyError(Exception):
    """The code that a planted bug changes is not there, or not there exactly once."""


@dataclass(frozen=True)
class Bug:
    """One planted bug and its tests; at least one must fail because of it.

    `function` is the qualified name of the function or class that holds `old`; empty for the whole module.
    """

    name: str
    tests: tuple[str, ...]
    file: Path
    function: str
    changes: tuple[tuple[str, str], ...]
    """Pairs of the code as it is and as it becomes."""

    def apply(self, source: str) -> str:
        """Return `source` with the bug in it. Raises DoesNotApplyError."""
        for old, new in self.changes:
            source = replace(source, self.function, old, new)
        return source

    @property
    def changes_nothing(self) -> bool:
        """Return whether the code is the same before and after, apart from comments and line breaks."""
        return all(
            [token.string for token in tokens_of(old)] == [token.string for token in tokens_of(new)]
            for old, new in self.changes
        )


def read(path: Path) -> Bug:
    """Read a planted bug from its TOML file."""
    fields = tomllib.loads(path.read_text())
    changes = tuple((change["old"], change["new"]) for change in fields["changes"])
    return Bug(path.stem, tuple(fields["tests"]), Path(fields["file"]), fields["function"], changes)


def replace(source: str, function: str, old: str, new: str) -> str:
    """Replace the code `old` by `new` within one function, keeping the indentation. Raises DoesNotApplyError."""
    first, last = line_range(source, function)
    lines = source.splitlines(keepends=True)
    # Only the function's own lines: reading a whole file's tokens takes ten times as long.
    tokens = tokens_of("".join(lines[first - 1 : last]))
    wanted = [token.string for token in tokens_of(textwrap.dedent(old).strip("\n"))]
    strings = [token.string for token in tokens]
    places = [at for at in range(len(tokens)) if strings[at : at + len(wanted)] == wanted]
    if not places and any(token.string.count(old.strip("\n")) == 1 for token in tokens):
        return replace_in_literal(source, tokens, old.strip("\n"), new.strip("\n"))
    if len(places) != 1 or not wanted:
        raise DoesNotApplyError(f"{function or 'the module'} holds this code {len(places)} times:\n{old}")
    (row, start), (last_row, end) = tokens[places[0]].start, tokens[places[0] + len(wanted) - 1].end
    row, last_row = row + first - 2, last_row + first - 2
    line = lines[row]
    indented = textwrap.indent(
        textwrap.dedent(new).strip("\n"), " " * (len(line) - len(line.lstrip()))
    ).lstrip()
    before, after = line[:start], lines[last_row][end:]
    return "".join(lines[:row]) + before + indented + after + "".join(lines[last_row + 1 :])


def replace_in_literal(source: str, tokens: list[tokenize.TokenInfo], old: str, new: str) -> str:
    """Replace a part of the one string literal that holds it, as of an SQL statement. Raises DoesNotApplyError."""
    literals = [token for token in tokens if old in token.string]
    if len(literals) != 1 or source.count(literals[0].string) != 1:
        raise DoesNotApplyError(f"{len(literals)} literals hold this text:\n{old}")
    literal = literals[0].string
    return source.replace(literal, literal.replace(old, new))


def line_range(source: str, function: str) -> tuple[int, int]:
    """Return the first and the last line of a function or class, its decorators included."""
    scope: ast.AST = ast.parse(source)
    if not function:
        return 1, source.count("\n") + 1
    for part in function.split("."):
        scopes = [
            node
            for node in ast.walk(scope)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and node.name == part
            and node is not scope
        ]
        if not scopes:
            raise DoesNotApplyError(f"there is no {function}")
        scope = scopes[0]
    assert isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    assert scope.end_lineno is not None
    return min([scope.lineno, *(decorator.lineno for decorator in scope.decorator_list)]), scope.end_lineno


def tokens_of(source: str) -> list[tokenize.TokenInfo]:
    """Return the significant tokens of whole or partial code, without trailing commas, which a formatter adds."""
    tokens = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source + "\n").readline):
            if token.type not in INSIGNIFICANT:
                tokens.append(token)
    except tokenize.TokenError:
        pass  # a part of a statement may leave a bracket open
    return [
        token
        for token, following in pairwise([*tokens, None])
        if token and not (token.string == "," and following and following.string in (")", "]", "}"))
    ]
