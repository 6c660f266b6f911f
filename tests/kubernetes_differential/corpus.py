"""All cases, by the file of `cases/` that defines them. A new file needs no more than a list `CASES`."""

import fnmatch
import importlib
from functools import cache
from pathlib import Path

from tests.kubernetes_differential.case import Case


def modules() -> list[str]:
    """Names of the files of cases, without the time that it takes to make the cases."""
    return sorted(path.stem for path in (Path(__file__).parent / "cases").glob("[a-z]*.py"))


@cache
def corpus() -> dict[str, list[Case]]:
    """Cases by file."""
    content = {
        name: list(importlib.import_module(f"tests.kubernetes_differential.cases.{name}").CASES)
        for name in modules()
    }
    taken = [case.name for cases in content.values() for case in cases]
    assert len(taken) == len(set(taken)), sorted({name for name in taken if taken.count(name) > 1})
    return content


def chosen(pattern: str) -> dict[str, list[Case]]:
    """Cases whose file or name matches a pattern of the shell, or begins with it."""

    def matches(module: str, case: Case) -> bool:
        names = (module, case.name, f"{module}/{case.name}")
        return any(fnmatch.fnmatchcase(name, pattern) or name.startswith(pattern) for name in names)

    picked = {module: [case for case in cases if matches(module, case)] for module, cases in corpus().items()}
    return {module: cases for module, cases in picked.items() if cases}
