"""`steelyard up`, `steelyard down` and `steelyard status`: one machine, one state folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import FolderOption
from steelyard.cli.extras import check_local, needs

if TYPE_CHECKING:
    from steelyard.local.detached import UpOptions


@needs("local")
def up(
    state_dir: FolderOption = None,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", "-d", help="Return once everything answers; it keeps running in the background."
        ),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of Kubernetes; 0 keeps the last one.")
    ] = 0,
    api_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the platform's API; 0 keeps the last one.")
    ] = 0,
    settings: Annotated[Path | None, typer.Option(help="Settings file (steelyard.toml).")] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(help="File to write {api, token, kubeconfig, pid} to as JSON once everything answers."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            help="Part or service to leave out, such as operator, platform or orchestrator. May be repeated."
        ),
    ] = None,
    new_kubernetes: Annotated[
        bool,
        typer.Option(
            "--new-kubernetes",
            help="Start with an empty Kubernetes database, if the old one is lost or damaged.",
        ),
    ] = False,
) -> None:
    """Start the platform, its operator and Kubernetes here. Ctrl-C ends them in order."""
    check_local()
    from steelyard.local.detached import UpOptions
    from steelyard.local.machine import check_file_system, check_machine
    from steelyard.local.state import StateDir, check_for_up

    state, left_out = _state(state_dir), _parse_without(without or [])
    check_for_up(StateDir(state))
    check_machine()
    check_file_system(state)
    if settings is not None:
        from steelyard.settings import load

        load(settings, state)  # a mistake in the file is reported here, not in a log
    asked = UpOptions(port, api_port, settings, ready_file, left_out, new_kubernetes)
    if detach:
        _start_detached(state, asked, state_dir)
    else:
        _supervise(state, asked)


@needs("local")
def down(state_dir: FolderOption = None) -> None:
    """End everything that runs on a state folder. That includes what a killed `up` left behind."""
    from steelyard.local.detached import stop
    from steelyard.local.state import StateDir, explain_no_state_folder

    state = _state(state_dir)
    why = explain_no_state_folder(StateDir(state))
    stop(state)
    typer.echo(f"nothing runs on {state}: {why}" if why else f"nothing of {state} runs any more")


@needs("local")
def status(
    state_dir: FolderOption = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Form of the output: table or json.")
    ] = "table",
) -> None:
    """Show what runs: processes, addresses, nodes, resources.

    Exit status 1 when nothing runs.
    """
    import asyncio

    from steelyard.local.overview import read_overview, to_json, to_table
    from steelyard.local.state import StateDir
    from steelyard_common.errors import UsageError

    if output not in ("table", "json"):
        raise UsageError(f"--output {output}: should be table or json")
    overview = asyncio.run(read_overview(StateDir(_state(state_dir))))
    typer.echo(to_json(overview) if output == "json" else to_table(overview))
    if not overview.running:
        raise typer.Exit(1)


def _start_detached(state: Path, asked: "UpOptions", folder: Path | None) -> None:
    from steelyard.local.detached import start_detached
    from steelyard.local.state import StateDir, token_for_terminal

    ready = start_detached(state, asked)
    token = token_for_terminal(StateDir(state), ready)
    platform = f"  api:         {ready.api}\n  token:       {token}\n" if ready.api else ""
    typer.echo(
        f"steelyard runs (pid {ready.pid})\n{platform}  kubeconfig:  {ready.kubeconfig}\n"
        f"  end it with: {_down(folder)}"
    )


def _supervise(state: Path, asked: "UpOptions") -> None:
    """Run everything from this process, until it is asked to stop."""
    import asyncio

    from steelyard.local.state import StateDir
    from steelyard.local.supervisor import Options, supervise

    options = Options(
        StateDir(state),
        asked.port,
        asked.api_port,
        asked.settings and asked.settings.resolve(),
        asked.ready_file and asked.ready_file.resolve(),
        asked.without,
        asked.new_kubernetes,
    )
    asyncio.run(supervise(options, _print))


def _state(folder: Path | None) -> Path:
    from steelyard.cli.connection import choose_state_dir

    return choose_state_dir(folder).path


def _parse_without(names: list[str]) -> tuple[str, ...]:
    from steelyard.local.process import PARTS
    from steelyard_common.errors import UsageError

    possible = [part for part in PARTS if part != "kubernetes"]
    for name in names:
        if name not in possible:
            raise UsageError(f"--without {name}: should be one of {', '.join(possible)}")
    return tuple(names)


def _down(folder: Path | None) -> str:
    return f"steelyard down --state-dir {folder}" if folder else "steelyard down"


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError:  # a terminal that has gone away must not end the platform
        return
