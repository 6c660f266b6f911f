"""Every reason that the platform's code gives an entity stands in the reference, and no other does.

The code is read, not run: what stands where a reason is set, as a text or as the name of a constant.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from steelyard_schema.reasons import REASONS
from steelyard_schema.status import KINDS, TERMINAL, statuses
from tests import source

PLACES = (
    *("operator/workflows", "operator/runners.py", "services/orchestrator", "services/informer"),
    *("services/reaper", "services/status_commands.py", "api", "steelyard_schema/run_status.py"),
)
"""Modules that give entities their statuses. The aggregator applies them, and a step's code is a reason only if its
workflow knows it as one."""
SETTERS = frozenset(
    {
        *("fail", "Fail", "Wait", "Status", "StatusPatch", "Unresolvable", "RunnerFault"),
        *("_change_status", "_set_status", "set_status", "common_decision", "choose_reason"),
    }
)
"""Functions and classes that are called with a reason, beside statuses and messages."""
ARGUMENTS = frozenset({"reason", "default"})
TABLES = re.compile(r"_?(REASONS|PROGRESS)")
"""Names of tables of reasons; of a dict, the values are reasons."""
WORD = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)*")
STATUSES = {*TERMINAL, *(status for kind in KINDS for status in statuses(kind)), "Active", "Suspended"}


def modules() -> Iterator[ast.Module]:
    for place in PLACES:
        path = source.place(place)
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if not file.name.startswith("test_") and "simulation" not in file.parts:
                yield ast.parse(file.read_text())


def constants() -> Mapping[str, str]:
    """Return the texts that modules give names, all over the platform: a reason may be named elsewhere."""
    texts = {}
    for file in source.modules():
        for match in re.finditer(r'^(_?[A-Z][A-Z_]+) = "([A-Z][A-Za-z]+)"$', file.read_text(), re.MULTILINE):
            texts[match[1]] = match[2]
    return texts


def words(node: ast.AST, named: Mapping[str, str]) -> Iterator[str]:
    """Yield the words that an expression may be: a text, a named one, either side of a condition."""
    match node:
        case ast.Constant(value=str(text)) if WORD.fullmatch(text):
            yield text
        case ast.Name(id=name) if name in named:
            yield named[name]
        case ast.IfExp(body=body, orelse=orelse):
            yield from words(body, named)
            yield from words(orelse, named)
        case ast.Set(elts=values) | ast.Tuple(elts=values) | ast.Dict(values=values):
            for value in values:
                yield from words(value, named)
        case ast.Call(func=ast.Name(id="frozenset"), args=[values]):
            yield from words(values, named)


def reasons_in(module: ast.Module, named: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(module):
        for value in expressions(node):
            yield from words(value, named)


def expressions(node: ast.AST) -> Sequence[ast.expr]:
    """Return the expressions of a statement or a call that may be reasons."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=args):
            # What a table gives where it has no line.
            return args if TABLES.fullmatch(name) else ()
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args, keywords=keywords):
            named = [keyword.value for keyword in keywords if keyword.arg in ARGUMENTS]
            return [*(args if name in SETTERS else ()), *named]
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "reason"]
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=table)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as table)
        ):
            return [table] if TABLES.fullmatch(name) else ()
    return ()


def test_the_reasons_of_the_code_are_those_of_the_reference() -> None:
    named = constants()
    reasons = {reason for module in modules() for reason in reasons_in(module, named)} - STATUSES
    assert reasons == REASONS.keys()


def test_a_new_reason_is_seen_wherever_it_is_set() -> None:
    code = """
REASONS = frozenset({"FromTable"})
def f():
    return fail("FromCall", "words"), Status("Failed", reason=LATE)
either = StatusPatch(reason="Either" if x else "FromChoice")
late = REASONS.get("x", ("FromGet", ""))
change = {"status": "Failed", "reason": "FromDict"}
"""
    expected = {"Either", "FromGet", "FromTable", "FromCall", "Late", "FromChoice", "FromDict", "Failed"}
    assert set(reasons_in(ast.parse(code), {"LATE": "Late"})) == expected


def test_a_reason_is_one_word_and_is_explained_in_sentences() -> None:
    assert list(REASONS) == sorted(REASONS)
    for reason, text in REASONS.items():
        assert WORD.fullmatch(reason)
        assert text[0].isupper(), reason
        assert text.endswith("."), reason
        assert "|" not in text, reason
