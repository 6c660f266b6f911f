"""Tests of commands that are built when they are used."""

import sys

import pytest
import typer
from typer.testing import CliRunner

from steelyard.cli.lazy import lazy_group
from steelyard.cli.main import COMMANDS

THIS = "lazy_commands_of_this_test"
FAILING = "lazy_command_that_cannot_be_imported"


def first() -> None:
    """Say one."""
    typer.echo("one")


second = typer.Typer(help="Say two, or three.")


@second.command()
def two() -> None:
    """Say two."""
    typer.echo("two")


@second.command()
def three(loud: bool = False) -> None:
    """Say three."""
    typer.echo("THREE" if loud else "three")


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.setitem(sys.modules, THIS, sys.modules[__name__])
    addresses = {"second": f"{THIS}:second", "first": f"{THIS}:first", "absent": f"{FAILING}:command"}
    program = typer.Typer(cls=lazy_group(addresses), rich_markup_mode=None, pretty_exceptions_enable=False)
    program.callback()(lambda: None)
    return program


@pytest.mark.parametrize(
    ("words", "output"),
    [("first", "one\n"), ("second two", "two\n"), ("second three --loud", "THREE\n")],
)
def test_a_command_runs_though_another_cannot_be_imported(app: typer.Typer, words: str, output: str) -> None:
    run = CliRunner().invoke(app, words.split())
    assert (run.exit_code, run.output) == (0, output)


def test_a_module_that_cannot_be_imported_fails_its_command(app: typer.Typer) -> None:
    run = CliRunner().invoke(app, ["absent"])
    assert isinstance(run.exception, ModuleNotFoundError)
    assert run.exception.name == FAILING


def test_a_key_error_of_an_import_does_not_read_as_an_unknown_command(
    app: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def __getattr__(self, name: str) -> object:
            raise KeyError("a fault of the module")

    monkeypatch.setitem(sys.modules, FAILING, Failing())
    run = CliRunner().invoke(app, ["absent"])
    assert isinstance(run.exception, KeyError)


def test_an_unknown_command_is_refused_with_the_names_that_are_like_it(app: typer.Typer) -> None:
    run = CliRunner().invoke(app, ["frist"])
    assert run.exit_code == 2
    assert "No such command 'frist'" in run.output
    assert "'first'" in run.output


def test_the_listing_has_every_command_in_the_order_of_the_table() -> None:
    from steelyard.cli.main import app

    run = CliRunner().invoke(app, ["--help"])
    listing = run.output.partition("Commands:\n")[2]
    names = [line.split()[0] for line in listing.splitlines() if line.startswith("  ") and line[2] != " "]
    assert names == list(COMMANDS)
