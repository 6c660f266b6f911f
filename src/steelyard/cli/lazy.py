"""Commands that are imported and built when they are used: most commands work for less time than it takes to make all.

`main` lists the address of each. The listing of `--help`, and the completion of names, make all of them.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


class LazyCommands(Mapping[str, Any]):
    """The commands of a group by name, each built when it is first asked for.

    `addresses` names the function, or the group, of every command, such as `steelyard.cli.up:down`.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build(name, self._addresses[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)


def lazy_group(addresses: Mapping[str, str]) -> type[TyperGroup]:
    """Return the class of a group that has the commands of these addresses, in their order."""

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            # Typer and click read it, and a command that was built stays: nothing adds another.
            self.commands: Any = LazyCommands(addresses)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(addresses)  # Typer's own would build all of them to name them

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            # The mapping's own `get` would take a KeyError of an import for a command that does not exist.
            return self.commands[cmd_name] if cmd_name in addresses else None

    return LazyGroup


def _build(name: str, address: str) -> Any:
    """Return the command of Typer that it makes of a function or a group below another group."""
    module, _, attribute = address.partition(":")
    source = getattr(import_module(module), attribute)
    parent = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    parent.callback()(lambda: None)  # without it, Typer would make a lone command the whole program
    if isinstance(source, typer.Typer):
        parent.add_typer(source, name=name)
    else:
        parent.command(name)(source)
    group: Any = typer.main.get_command(parent)
    return group.commands[name]
