"""The `steelyard` command: assembles the command groups; each imports its needs when it is called."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import cast

import typer

from steelyard import __version__
from steelyard.cli import (
    accounts,
    audit_verify,
    backup,
    config,
    croissant,
    entities,
    families,
    log,
    move,
    quarantine,
    quotas,
    report_verify,
    reruns,
    restore,
    run,
    runners,
    scores,
    secrets,
    serve,
    service,
    sign,
    spend,
    teams,
    transfer,
    up,
    webhooks,
)
from steelyard.cli.demo import command
from steelyard.cli.eval.group import eval_app
from steelyard.cli.extras import needs
from steelyard.cli.ray.groups import appwrapper_app, queue_app, ray_app
from steelyard.cli.train.group import train_app

app = typer.Typer(
    name="steelyard",
    help="Train, serve, evaluate and audit AI systems, on Kubernetes or on this machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
LOCAL: tuple[Callable[..., None], ...] = (up.up, up.status, up.down, serve.serve, run.run, command.demo)
for verb in LOCAL:
    app.command()(needs("local")(verb))
VERBS: tuple[Callable[..., None], ...] = (
    entities.create,
    entities.apply,
    entities.get,
    entities.describe,
    entities.wait,
    entities.label,
    entities.publish,
    entities.terminate,
    entities.delete,
    reruns.rerun,
    transfer.upload,
    transfer.download,
    transfer.logs,
)
for verb in VERBS:
    app.command()(verb)
app.command()(accounts.token)
app.add_typer(accounts.account, name="account")
app.add_typer(quarantine.quarantine, name="quarantine")
app.add_typer(quotas.quota, name="quota")
app.add_typer(secrets.secret, name="secret")
app.add_typer(teams.team, name="team")
app.add_typer(families.family, name="family")
app.command()(families.document)
app.add_typer(webhooks.webhook, name="webhook")
app.add_typer(log.log, name="log")
app.command()(spend.spend)
app.command()(restore.restore)
app.command()(move.export)
app.command("import")(move.import_)
app.add_typer(backup.backup, name="backup")
app.add_typer(config.config, name="config")
transfer.report.command("verify")(needs("eval")(report_verify.verify))
transfer.audit.command("verify")(needs("eval")(audit_verify.verify))
transfer.report.command("sign")(needs("eval")(sign.sign_report))
transfer.audit.command("sign")(needs("eval")(sign.sign_audit))
app.add_typer(transfer.report, name="report")
app.add_typer(transfer.audit, name="audit")
transfer.safetycase.command("scores")(scores.scores)
app.add_typer(transfer.safetycase, name="safetycase")
app.add_typer(croissant.croissant, name="croissant")
app.add_typer(eval_app, name="eval")
app.add_typer(train_app, name="train")
app.add_typer(ray_app, name="ray")
app.add_typer(queue_app, name="queue")
app.add_typer(appwrapper_app, name="appwrapper")
app.add_typer(runners.runners, name="runners")
app.command()(service.service)


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
    from steelyard.cli.plain_text import escape_output
    from steelyard.exits import leave

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
    from steelyard.errors import EngineError, SteelyardError, words_of_file_error

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
