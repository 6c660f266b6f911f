"""Figures of the tree: how much there is, and what of it is written in a dialect.

`python -m tests.house` prints them, and `--list "docstring signs"` the places of one kind. `test_house.py` lets no
kind of fault grow.
"""

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

ROOT = Path(__file__).parent.parent
FILES = sorted(
    path
    for folder in ("src", "packages", "tests", "benchmarks", "examples", "deploy")
    for path in (ROOT / folder).rglob("*.py")
)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted(ROOT.glob("packages/*/README.md"))
PYTHON, HTTP = ROOT / "tests/interface/listed/python.txt", ROOT / "tests/interface/listed/http.txt"
PARTICIPLES = re.compile(
    r"""begun|bent|bought|bound|broken|brought|built|chosen|done|drawn|driven|fallen|felt|forgotten|found|frozen|given
    |gone|grown|heard|held|hidden|kept|known|laid|left|lent|lost|made|meant|met|paid|said|seen|sent|shown|sold|spent
    |spoken|stood|taken|taught|thought|thrown|told|torn|understood|woken|won|written
    |(?!(?:bleed|breed|embed|exceed|feed|need|proceed|seed|shed|sched|speed|succeed)$)\w\w+ed""",
    re.VERBOSE,
)
PRONOUNS = re.compile(
    r"""each|every|hers|his|how|inner|its|mine|nothing|of|others?|ours|outer|same|somebody|something|such|that|theirs
    |these|they|this|those|what|whatever|when|where|which|who|whom|whose|why""",
    re.VERBOSE,
)
SIGNS = re.compile(
    r"""\bwhat\ (?:(?:is|are|was|were)(?!\ (?:wrong|missing|allowed|left)\b)|has|have|had|does|do|did)\b
    |\bof\ (?:which|whom)\b|\bsuch\ (?:an?\ )?ones?\b|\b(?:has|have|had)\ none\b
    |(?<!there\ )\b(?:is|are|was|were)\ (?:(?-i:none)\b|no\ (?!longer|more|less|fewer|other|matter|reason)\w+)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Turns of a dialect, such as sentences that say "no" behind the verb."""
Kind = Literal[
    "private functions used once",
    "functions named by a participle or a pronoun",
    "functions named *_of",
    "classes named by a participle or a pronoun",
    "modules imported under a pronoun",
    "docstring signs",
    "signs in messages",
    "signs in pages",
]
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Fault(NamedTuple):
    kind: Kind
    path: str
    line: int
    text: str


@cache
def faults() -> list[Fault]:
    """Every fault that can be counted, in code and pages."""
    in_code = (fault for path in FILES for fault in code_faults(name(path), path.read_text()))
    return [*in_code, *page_faults()]


def page_faults() -> Iterator[Fault]:
    for path in PAGES:
        text = re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), path.read_text(), flags=re.S)
        yield from (Fault("signs in pages", name(path), line + 1, sign) for line, sign in signs(text))


def code_faults(path: str, text: str) -> Iterator[Fault]:
    return node_faults(path, list_nodes(ast.parse(text)))


def list_nodes(tree: ast.AST) -> list[ast.AST]:
    """Return the tree and all nodes below it, as `ast.walk` does in twice the time; without Load, Store and Del."""
    nodes = [tree]
    for node in nodes:  # which grows
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and field != "ctx":
                nodes.append(value)
    return nodes


def node_faults(path: str, nodes: list[ast.AST]) -> Iterator[Fault]:
    module = Path(path).stem
    owners = {id(part): node.name for node in nodes if isinstance(node, ast.ClassDef) for part in node.body}
    uses = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    uses.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if in_product(path):
                published = f"{owners.get(id(node), module)}.{node.name}" in published_names()
                kinds = function_faults(node, uses, published=published)
                yield from (Fault(kind, path, node.lineno, node.name) for kind in kinds)
            case ast.ClassDef() if is_odd(node.name.lstrip("_").lower()) and not (
                is_error(node) or node.name in published_names()
            ):
                yield Fault("classes named by a participle or a pronoun", path, node.lineno, node.name)
            case ast.alias(asname=str(alias)) if PRONOUNS.fullmatch(alias):
                yield Fault("modules imported under a pronoun", path, node.lineno, alias)
            case ast.Constant(value=str(words)) if id(node) in prose:
                for line, sign in signs(words):
                    yield Fault("docstring signs", path, node.lineno + line, sign)
            case ast.Constant(value=str(words)) if in_product(path):
                for _, sign in signs(words):
                    yield Fault("signs in messages", path, node.lineno, sign)


def function_faults(function: Function, uses: Counter[str], *, published: bool = False) -> Iterator[Kind]:
    if re.match("_[^_]", function.name) and uses[function.name] == 1:
        yield "private functions used once"
    if published or (
        function.returns is not None and re.match(r"bool|Type(Guard|Is)\[", ast.unparse(function.returns))
    ):
        return
    if is_odd(function.name.strip("_").split("_")[0]):
        yield "functions named by a participle or a pronoun"
    elif function.name.endswith("_of"):
        yield "functions named *_of"


def in_product(path: str) -> bool:
    return "src" in path.split("/") and not Path(path).name.startswith(("test_", "conftest"))


def is_odd(word: str) -> bool:
    """Tell whether a name that begins with this word says what happened, or points at something, and names nothing."""
    return bool(PARTICIPLES.fullmatch(word) or PRONOUNS.fullmatch(word))


def is_error(node: ast.ClassDef) -> bool:
    """Tell an exception from other classes: the names of the field are participles, such as `Unauthorized`."""
    return any(
        name.endswith(("Error", "Exception")) or name in errors()
        for name in (ast.unparse(base).rpartition(".")[2] for base in node.bases)
    )


@cache
def errors() -> frozenset[str]:
    """Return the names of the tree's exceptions that do not end in Error: they have another exception as base."""
    bases = {
        name: base
        for path in FILES
        for name, base in re.findall(r"^class (\w+)\((?:\w+\.)*(\w+)", path.read_text(), re.MULTILINE)
    }

    def is_one(name: str) -> bool:
        return name.endswith(("Error", "Exception")) or (name in bases and is_one(bases[name]))

    return frozenset(filter(is_one, bases))


@cache
def published_names() -> frozenset[str]:
    """Return the names that users' programs have, with their class or the last part of their module.

    They stay as they are: a property such as `JobView.completed` has the name of the field in Kubernetes. The models of
    the HTTP API are among them.
    """
    python = re.findall(r"^[\w.]*?(\w+\.\w+)(?=[ :(]|$)", PYTHON.read_text(), re.MULTILINE)
    models = re.findall(r"^(\w+) \{", HTTP.read_text(), re.MULTILINE)
    return frozenset([*python, *(name.rpartition(".")[2] for name in python), *models])


def signs(text: str) -> Iterator[tuple[int, str]]:
    """Line, from 0, and words of each sign; a line break between two words hides none."""
    for match in SIGNS.finditer(re.sub(r"\s", " ", text)):
        yield text.count("\n", 0, match.start()), match[0]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def counts() -> dict[Kind, int]:
    number = Counter(fault.kind for fault in faults())
    return {kind: number[kind] for kind in get_args(Kind)}


def sizes() -> Iterator[tuple[str, str]]:
    """Names and values of the figures that have no ceiling."""
    for title, product in (("code", True), ("tests and benchmarks", False)):
        paths = [path for path in FILES if in_product(name(path)) is product]
        lines = sum(path.read_text().count("\n") for path in paths)
        comments = sum(len(re.findall(r"^.*(?:^|\s)# .*$", path.read_text(), re.MULTILINE)) for path in paths)
        yield f"files of {title}", f"{len(paths):,}"
        yield f"lines of {title}", f"{lines:,}"
        yield f"comments per 100 lines of {title}", f"{100 * comments / lines:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", choices=get_args(Kind), metavar="KIND", help="show the places of one kind")
    if kind := parser.parse_args().list:
        print(
            *(f"{fault.path}:{fault.line}: {fault.text}" for fault in faults() if fault.kind == kind),
            sep="\n",
        )
        return
    trees = [(name(path), ast.parse(path.read_text())) for path in FILES]
    functions = sum(
        isinstance(node, Function) for path, tree in trees if in_product(path) for node in ast.walk(tree)
    )
    words = sum(
        len(node.value.value.split())
        for _, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
    for title, value in sizes():
        print(f"{title:50}{value:>10}")
    for kind, count in counts().items():
        share = f"  {100 * count / functions:.1f} % of {functions:,}" if "functions" in kind else ""
        share = f"  {10_000 * count / words:.1f} in 10,000 words" if kind == "docstring signs" else share
        print(f"{kind:50}{count:>10,}{share}")


if __name__ == "__main__":
    main()
