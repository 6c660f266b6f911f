"""Public names and parameters of codeflare-sdk, read from its source: `python -m tests.engines.ray.names`.

`listed/` has them by version, as facts that docs/from-codeflare-sdk.md has to map; this suite compares them with the
published packages. Nothing of a package is imported, so that it needs none of its dependencies.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.engines.build import Missing
from tests.engines.locked import environment

HERE = Path(__file__).parent
LISTED = HERE / "listed"
VERSIONS = ("0.33.1", "0.38.2", "0.40.1")
EXPORTING = ("__init__.py", "ray/__init__.py")
MODULES = ("common/utils/generate_cert.py", "codeflare.py")
"""Modules whose public names users reach by an object or by the module, without an export of their own."""
NOT_THEIRS = frozenset({"PackageNotFoundError", "version"})
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def run() -> int:
    """Compare the listings with the published packages. Raises Missing where one cannot be had."""
    status = 0
    for version in VERSIONS:
        python = environment(
            f"codeflare-{version}", LISTED / f"{version}.lock", "engines/names", dependencies=False
        )
        (package,) = python.parents[1].glob("lib/python*/site-packages/codeflare_sdk")
        now, listed = list(names_of(package)), (LISTED / f"{version}.txt").read_text().splitlines()
        if now != listed:
            status = 1
            print(f"codeflare-sdk {version}: the listing differs: {sorted({*now} ^ {*listed})}")
        print(f"codeflare-sdk {version}: {len(now)} lines")
    return status


def names_of(package: Path) -> Iterator[str]:
    """Yield a line for each public name and method, with its parameters, fields or members."""
    definitions = dict(_definitions(package))
    exported = {name for file in EXPORTING for name in _exports(package / file)} - NOT_THEIRS
    for file in MODULES:
        if (package / file).exists():
            exported |= {node.name for node in _body(package / file) if isinstance(node, Definition)}
    for name in sorted(name for name in exported if not name.startswith("_")):
        node = definitions.get(name)
        if not isinstance(node, ast.ClassDef):
            yield _line(name, _parameters(node) if node else [])
            continue
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        start = _parameters(methods["__init__"]) if "__init__" in methods else list(_fields(node))
        yield _line(name, start)
        for method in sorted(method for method in methods if not method.startswith("_")):
            yield _line(f"{name}.{method}", _parameters(methods[method]))


def _line(name: str, parameters: list[str]) -> str:
    return f"{name}: {', '.join(parameters)}".rstrip(": ")


def _body(file: Path) -> list[ast.stmt]:
    return ast.parse(file.read_text(encoding="utf-8")).body


def _definitions(package: Path) -> Iterator[tuple[str, Definition]]:
    for file in sorted(package.rglob("*.py")):
        within = file.relative_to(package)
        if not within.name.startswith("test_") and within.parts[0] not in ("vendored", "demo-notebooks"):
            yield from ((node.name, node) for node in _body(file) if isinstance(node, Definition))


def _exports(file: Path) -> Iterator[str]:
    for statement in _body(file):
        # Some are imported where that works.
        for node in statement.body if isinstance(statement, ast.Try) else [statement]:
            if isinstance(node, ast.ImportFrom):
                yield from (alias.asname or alias.name for alias in node.names)


def _parameters(function: Definition) -> list[str]:
    assert not isinstance(function, ast.ClassDef)
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in named if argument.arg not in ("self", "_sdk", "sdk")]


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """Yield the fields of a data class, and the members of an enumeration."""
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            yield item.target.id
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            yield item.targets[0].id


def main() -> int:
    try:
        return run()
    except Missing as missing:
        sys.exit(f"{missing}: the names cannot be compared")


if __name__ == "__main__":
    sys.exit(main())
