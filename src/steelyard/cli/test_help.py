"""Every command says in one whole line of its group's help what it does."""

from collections.abc import Iterator

import pytest
import typer

from steelyard.cli.main import app

WIDTH = 80


def listings() -> Iterator[tuple[str, str]]:
    """Yield the name and the help of every group, as a terminal of 80 columns shows it."""
    groups = [("steelyard", typer.main.get_command(app))]
    for name, group in groups:
        commands = getattr(group, "commands", None)
        if commands is None:
            continue
        context = group.make_context(name, [], resilient_parsing=True, terminal_width=WIDTH)
        yield name, group.get_help(context)
        groups += [(f"{name} {command}", content) for command, content in commands.items()]


@pytest.mark.parametrize(("name", "text"), list(listings()))
def test_a_listing_cuts_no_sentence(name: str, text: str) -> None:
    cut = [line for line in text.splitlines()[1:] if line.endswith("...")]
    assert not cut, name
