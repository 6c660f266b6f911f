"""The `steelyard` command: names the commands and groups; each is imported and built when it is called."""

import sys
from types import ModuleType
from typing import cast

import typer

from steelyard.cli.lazy import lazy_group
from steelyard_common import __version__

COMMANDS = {
    "up": "up:up",
    "status": "up:status",
    "down": "up:down",
    "serve": "serve:serve",
    "run": "run:run",
    "demo": "demo.command:demo",
    "create": "entities:create",
    "apply": "entities:apply",
    "get": "entities:get",
    "describe": "entities:describe",
    "wait": "entities:wait",
    "label": "entities:label",
    "publish": "entities:publish",
    "terminate": "entities:terminate",
    "delete": "entities:delete",
    "rerun": "reruns:rerun",
    "upload": "transfer:upload",
    "download": "transfer:download",
    "logs": "transfer:logs",
    "token": "accounts:token",
    "document": "families:document",
    "spend": "spend:spend",
    "restore": "restore:restore",
    "export": "move:export",
    "import": "move:import_",
    "service": "service:service",
    "account": "accounts:account",
    "quarantine": "quarantine:quarantine",
    "quota": "quotas:quota",
    "secret": "secrets:secret",
    "team": "teams:team",
    "family": "families:family",
    "webhook": "webhooks:webhook",
    "log": "log:log",
    "backup": "backup:backup",
    "config": "config:config",
    "report": "pages:report",
    "audit": "pages:audit",
    "safetycase": "pages:safetycase",
    "croissant": "croissant:croissant",
    "eval": "eval.group:eval_app",
    "train": "train.group:train_app",
    "ray": "ray.groups:ray_app",
    "queue": "ray.groups:queue_app",
    "appwrapper": "ray.groups:appwrapper_app",
    "runners": "runners:runners",
}
"""Every command and group, in the order of the listing: its module below this package, and its name there."""

app = typer.Typer(
    name="steelyard",
    cls=lazy_group({name: f"steelyard.cli.{address}" for name, address in COMMANDS.items()}),
    help="Train, serve, evaluate and audit AI systems, on Kubernetes or on this machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"steelyard {__version__}")
        raise typer.Exit


@app.callback()
def steelyard(
    _version_: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    """Train, serve, evaluate and audit AI systems, on Kubernetes or on this machine."""


def main() -> None:
    """Entry point. A user's mistake, or an engine's failure, is one line on stderr and an exit status, no traceback."""
    from steelyard.steps.exits import leave, obey_termination

    obey_termination()
    from steelyard.cli.plain_text import escape_output

    escape_output()
    # httpx would import a command line of its own, with click and Pygments: a tenth of the time of most commands.
    sys.modules.setdefault("httpx._main", cast("ModuleType", None))
    try:
        _call()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        leave(ended.code)


def _call() -> None:
    from steelyard_common.errors import EngineError, SteelyardError, words_of_file_error

    try:
        app()
    except SteelyardError as error:
        print(f"steelyard: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from error
    except EngineError as error:
        print(f"steelyard: {error}", file=sys.stderr)
        raise SystemExit(1) from error
    except OSError as error:
        if (words := words_of_file_error(error)) is None:
            raise
        print(f"steelyard: {words}", file=sys.stderr)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
