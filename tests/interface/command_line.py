"""Lists the command line: every command with its options and arguments, without their help."""

from collections.abc import Iterator
from typing import Any

import typer

from steelyard.cli.main import app


def lines() -> list[str]:
    """The listing, commands in the order of their names."""
    return [
        line
        for words, command in _commands(typer.main.get_command(app), "steelyard")
        for line in (words, *(f"{words} {_parameter(parameter)}" for parameter in command.params))
    ]


def commands() -> list[tuple[str, ...]]:
    """The words of every command that does something, such as ("eval", "run")."""
    named = _commands(typer.main.get_command(app), "steelyard")
    return [tuple(words.split()[1:]) for words, command in named if not hasattr(command, "commands")]


# Typer brings a click of its own, or uses the one that is installed, by its version: the classes differ.
def _commands(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    yield words, command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(inner, f"{words} {name}")


def _parameter(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    marks = {
        "argument": not is_option,
        "takes a value": is_option and not parameter.is_flag,
        "required": parameter.required,
        "may be repeated": parameter.multiple if is_option else parameter.nargs == -1,
        "hidden": parameter.hidden,
    }
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    return f"{names} ({', '.join(mark for mark, holds in marks.items() if holds) or 'flag'})"
