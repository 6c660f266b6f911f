"""`steelyard service NAME`: one part alone, as the supervisor and the Helm chart start it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.extras import needs

EXTRAS = {
    "kubernetes": ("local",),
    "platform": ("local",),
    "operator": ("operator",),
    "orchestrator": ("api", "operator"),
    "informer": ("api", "operator"),
}
"""The extras of the parts; the others need the API's."""


def service(
    name: Annotated[
        str,
        typer.Argument(
            help="Part to run: kubernetes, operator, platform, or one service of the platform: aggregator, view-sink, "
            "backup-sink, reaper, orchestrator, informer, lineage, webhooks, storage, api."
        ),
    ],
    state_dir: Annotated[
        Path | None,
        typer.Option(
            help="State folder. Default: that of `steelyard up`; in a Pod whose engines are servers, none."
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            help="Port that kubernetes, platform or api listens on; 0 chooses a free one.",
        ),
    ] = 0,
    network: Annotated[
        int, typer.Option(min=1, max=254, help="For kubernetes: X in its addresses 127.X.0.0/16.")
    ] = 16,
    settings: Annotated[Path | None, typer.Option(help="Settings file (steelyard.toml).")] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="For platform: service to leave out. May be repeated.")
    ] = None,
    replica: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of this process where several run the same service of the platform on one state folder.",
        ),
    ] = 1,
    line: Annotated[int | None, typer.Option(hidden=True, help="The supervisor's socket.")] = None,
    listener: Annotated[
        int | None,
        typer.Option(hidden=True, help="Listening socket of the program whose place this one takes."),
    ] = None,
) -> None:
    """Run one part in the foreground, as `steelyard up` does."""
    from steelyard.cli.connection import choose_state_dir
    from steelyard.local.process import PARTS, SERVICES, ServiceOptions, run_process
    from steelyard_common.errors import UsageError

    if name not in PARTS:
        raise UsageError(f"service {name}: there is no such part; it should be one of {', '.join(PARTS)}")
    if replica > 1 and name not in SERVICES:
        raise UsageError(
            f"--replica {replica}: only a service of the platform may run several times, not {name}"
        )
    state = choose_state_dir(state_dir)
    left_out = tuple(without or ())
    part = ServiceOptions(
        name,
        state,
        port,
        network,
        settings and settings.resolve(),
        left_out,
        line,
        listener,
        replica,
        folder_chosen=state_dir is not None,
    )
    needs(*EXTRAS.get(name, ("api",)))(run_process)(part)


if __name__ == "__main__":
    from steelyard.steps.exits import leave, obey_termination

    obey_termination()
    from steelyard_common.errors import SteelyardError

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(service)
    try:
        app()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        leave(ended.code)
    except SteelyardError as error:
        print(f"steelyard: {error}", file=sys.stderr)
        leave(error.exit_code)
