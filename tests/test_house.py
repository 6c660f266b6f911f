"""Rules for the whole tree: docstrings with a subject, names of the field, JSON types defined once, no errors that
depend on the patch of Python, no values in messages as Python writes them; and ceilings for the figures of `house.py`.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from tests.house import FILES, ROOT, Kind, code_faults, list_nodes, node_faults, page_faults
from tests.source import FOLDERS, STEELYARD

NO_SUBJECT = re.compile(
    r"""\W*(about|above|after|again|also|always|among|and|as|at|because|before|being|below|beneath|beside|between|but
    |by|else|ever|everybody|everything|for|from|here|how|however|if|in|into|it|its|just|like|nobody|nor|not|nothing|of
    |on|once|only|or|over|per|since|so|still|such|than|that|their|then|there|they|those|through|to|under|unless|unlike
    |until|upon|what|whatever|when|where|whether|which|while|who|whoever|whom|whose|with|within|without|yet)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""First words of a docstring that goes on where the symbol's name stopped."""
FORBIDDEN_NAMES = frozenset({"each", "found", "surely", "told", "Means", "Told"})
"""Words of a dialect. A loop variable is its noun, a result is what it is."""
PUBLIC = {  # names that users' programs have
    ("src/steelyard/clusters/training/progress.py", "told"),
    ("src/steelyard/clusters/training/records.py", "told"),
}
WITH_THE_FAULTS = frozenset(
    {
        "packages/common/src/steelyard_common/types.py",
        "packages/schema/src/steelyard_schema/test_docstrings.py",
    }
)
"""Files that define the JSON types, or show the docstrings that are refused."""
CEILINGS: dict[Kind, int] = {
    "private functions used once": 2800,
    "functions named by a participle or a pronoun": 0,
    "functions named *_of": 0,
    "classes named by a participle or a pronoun": 0,
    "modules imported under a pronoun": 0,
    "docstring signs": 8,
    "signs in messages": 48,
    "signs in pages": 39,
}
"""Faults that there may be of each kind. The numbers only fall: whoever mends some lowers them."""
SLACK = 10
"""Faults by which a ceiling may stand above their number, so that two changes at a time do not collide."""
JSON_TYPES = frozenset({"Json", "JsonValue"})
VALUE_TYPES = JSON_TYPES | {"Any", "object"}
Fault = tuple[int, str, str]
"""Line, message, and the name that the message is about."""


def faults(nodes: Iterable[ast.AST]) -> Iterator[Fault]:
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from docstring_faults(node)
        if isinstance(node, ast.TryStar):
            yield from wrapped_raises(node)
        for name in defined_names(node):
            if name.lstrip("_") in FORBIDDEN_NAMES:
                yield (
                    line_of(node),
                    f"the name {name} says nothing: docs/glossary.md has the field's words",
                    name,
                )
            if name in JSON_TYPES:
                yield line_of(node), f"{name} is defined in steelyard_common.types alone", name


def docstring_faults(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[Fault]:
    """Docstrings of a module, class or function, and of the attributes in it, that begin without a subject."""
    texts = [
        (following.lineno, following.value.value)
        for before, following in zip([None, *node.body], node.body, strict=False)
        if isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
        and (before is None or isinstance(before, ast.Assign | ast.AnnAssign))
    ]
    for line, text in texts:
        if first := NO_SUBJECT.match(text):
            yield line, f"a docstring begins with a noun or a verb, not with {first[1]!r}", first[1]


def wrapped_raises(node: ast.TryStar) -> Iterator[Fault]:
    """Errors that are raised in `except*`: before Python 3.11.4 they arrive in a group, and no caller expects that."""
    for handler in node.handlers:
        for inner in ast.walk(handler):
            if isinstance(inner, ast.Raise) and inner.exc is not None:
                yield line_of(inner), "raise nothing in except*: Python 3.11.2 wraps it in a group", "except*"


def python_literals(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Fault]:
    """Messages that show a value of a document as Python writes it: True, None, dicts in single quotes."""
    values = {
        argument.arg
        for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if argument.annotation is not None
        and VALUE_TYPES & {name.id for name in ast.walk(argument.annotation) if isinstance(name, ast.Name)}
    }
    for inner in ast.walk(node):
        match inner:
            case ast.FormattedValue(value=ast.Name(id=name), conversion=114) if name in values:
                yield (
                    line_of(inner),
                    f"show {name} with steelyard_common.types.value_text, not as Python does",
                    name,
                )


def defined_names(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return [name]
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case _:
            return []


def line_of(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 1))


@cache
def faults_of_tree() -> tuple[list[str], Counter[Kind]]:
    """Return the lines of faults in all files, and how many there are of each kind; every file is parsed once."""
    lines: list[str] = []
    counts = Counter(fault.kind for fault in page_faults())
    for path in FILES:
        place, nodes = str(path.relative_to(ROOT)), list_nodes(ast.parse(path.read_text()))
        counts.update(fault.kind for fault in node_faults(place, nodes))
        if place not in WITH_THE_FAULTS:
            lines += [
                f"{place}:{line}: {fault}"
                for line, fault, name in sorted(faults(nodes))
                if (place, name) not in PUBLIC
            ]
    return lines, counts


def test_no_file_has_a_fault() -> None:
    lines, _ = faults_of_tree()
    assert not lines, "\n" + "\n".join(lines)


@pytest.mark.parametrize("kind", CEILINGS)
def test_a_kind_of_fault_only_becomes_rarer(kind: Kind) -> None:
    count = faults_of_tree()[1][kind]
    assert count <= CEILINGS[kind], f'more of "{kind}": python -m tests.house --list "{kind}"'
    assert count >= CEILINGS[kind] - SLACK, f"mended: lower the ceiling to {count}"


def test_messages_show_values_as_their_documents_do() -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] in ("src", "packages") and "!r}" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for line, fault, _ in python_literals(node)
    ]
    assert not lines, "\n" + "\n".join(lines)
    seen = ast.parse("def f(value: object | None) -> str:\n    return f'{value!r} is no list'").body[0]
    assert isinstance(seen, ast.FunctionDef)
    assert len(list(python_literals(seen))) == 1


def test_files_that_docstrings_name_exist() -> None:
    lines = [
        f"{path.relative_to(ROOT)}: there is no {name} beside it, nor above"
        for path in FILES
        for docstring in re.findall(r'"""(.*?)"""', path.read_text(), re.DOTALL)
        for name in re.findall(r"`([a-z][\w/]*\.py)`", docstring)
        if not any((folder / name).exists() for folder in (*path.parents, STEELYARD, *FOLDERS))
    ]
    assert not lines, "\n" + "\n".join(lines)


@pytest.mark.parametrize(
    "code",
    [
        '"""Of one answer."""',
        'class A:\n    x: int\n    """Those that are left."""',
        "for each in jobs: pass",
        "def _told(): pass",
        "def f(found): pass",
        "Json = dict",
        "try: pass\nexcept* ValueError: raise KeyError",
    ],
)
def test_a_fault_is_seen(code: str) -> None:
    assert len(list(faults(list_nodes(ast.parse(code))))) == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("def _read(): pass\n_read()", "private functions used once"),
        ("def written() -> str: pass", "functions named by a participle or a pronoun"),
        ("def ours() -> str: pass", "functions named by a participle or a pronoun"),
        ("def status_of() -> str: pass", "functions named *_of"),
        ("class Kept: pass", "classes named by a participle or a pronoun"),
        ("class _What: pass", "classes named by a participle or a pronoun"),
        ("import pods as of", "modules imported under a pronoun"),
        ('"""Texts of\nwhich none is read."""', "docstring signs"),
        ('"""A version that is no number."""', "docstring signs"),
        ('f"{x} is such a one"', "signs in messages"),
    ],
)
def test_a_kind_of_fault_is_seen(code: str, kind: Kind) -> None:
    assert [fault.kind for fault in code_faults("src/steelyard/example.py", code)] == [kind]


@pytest.mark.parametrize(
    "code",
    [
        "def written() -> bool: pass",
        "def is_of() -> TypeGuard[str]: pass",
        "def seed() -> str: pass",
        "class Refused(SteelyardError): pass",
        "class Expired(TransferFailed): pass",
        "class JobView:\n    def completed(self) -> int: pass",
        "class PodsChanged: pass",
        "def _read(): pass\n_read(_read())",
        '"""None where there is none; it is no longer needed."""',
    ],
)
def test_names_of_the_field_are_accepted(code: str) -> None:
    assert not list(code_faults("src/steelyard/example.py", code))
