"""`steelyard runners`: the environments of the programs that serve models, and of methods, on this machine."""

from pathlib import Path
from typing import Annotated

import typer

runners = typer.Typer(
    help="Programs that serve models; and dyff-audit, for methods.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
KindArgument = Annotated[
    str, typer.Argument(metavar="RUNNER", help="Runner: vllm, llama.cpp, transformers or dyff-audit.")
]
PlatformOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="State folder of the platform that should know of it. Default: ./.steelyard where it exists, else "
        "$XDG_STATE_HOME/steelyard or ~/.local/state/steelyard. The runner itself is not stored there.",
    ),
]


@runners.command()
def install(
    runner: KindArgument,
    cpu: Annotated[bool, typer.Option("--cpu", help="For processors.")] = False,
    cuda: Annotated[bool, typer.Option("--cuda", help="For NVIDIA's GPUs.")] = False,
    state_dir: PlatformOption = None,
) -> None:
    """Install a runner from its lock. It goes into $XDG_DATA_HOME/steelyard/runners, or below ~/.local/share.

    Without --cpu and --cuda, the machine decides: --cuda where NVIDIA's driver is loaded. An installation that is
    interrupted leaves nothing; one that is there already is kept. A platform on this machine then knows it: the one of
    --state-dir, if there is one.
    """
    from steelyard.local.runners.install import default_variant
    from steelyard.local.runners.install import install as install_runner
    from steelyard.runners.table import program_named
    from steelyard_common.errors import UsageError

    kind = program_named(runner)
    if cpu and cuda:
        raise UsageError("--cpu and --cuda: give one of them")
    variant = "cpu" if cpu else "cuda" if cuda else default_variant(kind)
    install_runner(kind, variant, typer.echo)
    _enter(state_dir)


@runners.command("list")
def list_() -> None:
    """List the runners, and which of them are installed."""
    from steelyard.local.runners.environments import read
    from steelyard.runners.table import PROGRAMS

    lines = [("RUNNER", "INSTALLED", "SERVES")]
    for kind in PROGRAMS.values():
        installed = read(kind)
        text = f"{installed.version} ({installed.variant})" if installed else "no"
        lines.append((kind.name, text, kind.serves))
    for name, text, serves in lines:
        typer.echo(f"{name:14}{text:26}{serves}")


@runners.command()
def check(runner: KindArgument) -> None:
    """Check that the files of a runner are as installed. The lock of this Steelyard says how.

    Exit status 1 where something is wrong.
    """
    from steelyard.local.runners.environments import faults, read
    from steelyard.runners.table import program_named
    from steelyard_common.errors import UsageError

    kind = program_named(runner)
    installed = read(kind)
    if installed is None:
        raise UsageError(f"{runner}: is not installed; install it with: {kind.install_command}")
    wrong = faults(kind, installed)
    for line in wrong[:20]:
        typer.echo(line)
    if wrong:
        typer.echo(
            f"{len(wrong)} faults in {installed.folder}; install it again after: steelyard runners remove {runner}"
        )
        raise typer.Exit(1)
    typer.echo(
        f"{kind.name} {installed.version} ({installed.variant}): {len(installed.versions)} packages, nothing is wrong"
    )


@runners.command()
def remove(runner: KindArgument, state_dir: PlatformOption = None) -> None:
    """Remove a runner's environment. Servers that run from it may fail."""
    from steelyard.local.runners.environments import remove as remove_environment
    from steelyard.runners.table import program_named

    there = remove_environment(program_named(runner))
    _enter(state_dir)
    typer.echo(f"{runner} is removed" if there else f"{runner} was not installed")


def _enter(state_dir: Path | None) -> None:
    """Enter the installed runners into images.toml of the platform that these options mean, if there is one."""
    from steelyard.cli.connection import choose_state_dir
    from steelyard.local.runners.images import enter_installed

    state = choose_state_dir(state_dir)
    if state.images.exists():
        enter_installed(state)
