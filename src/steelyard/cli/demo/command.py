"""`steelyard demo`: starts what is missing, runs the demonstration, and prints the page and what to try next."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import FolderOption, choose_state_dir, command_name, short_path
from steelyard.cli.extras import check_local, needs
from steelyard_common.errors import SteelyardError, UsageError

if TYPE_CHECKING:
    from steelyard.client import Client


@needs("local")
def demo(
    state_dir: FolderOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the pages. Default: audits/ in the state folder, or here with --endpoint."
        ),
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="Settings file (steelyard.toml).")] = None,
    timeout: Annotated[int, typer.Option(min=1, help="Time limit of one step, in seconds.")] = 600,
    display: Annotated[str, typer.Option(help="How to show progress: auto, rich, plain or none.")] = "auto",
    endpoint: Annotated[
        str | None,
        typer.Option(help="Address of the API of a platform that is installed elsewhere, with /v0."),
    ] = None,
    token: Annotated[
        str | None, typer.Option(help="API token for it. Default: STEELYARD_API_TOKEN or DYFF_API_TOKEN.")
    ] = None,
) -> None:
    """Evaluate, audit and compare two models.

    The command uploads the data and the models first, and does everything through the client. With `--endpoint` it uses
    the platform there; else that of the state folder, which it starts, and ends again, where none runs.
    """
    if token is not None and endpoint is None:
        raise UsageError("--token: is for the platform at --endpoint, which is missing")
    check_local()
    from steelyard.cli.demo.digits import make
    from steelyard.cli.demo.story import Story
    from steelyard.cli.display import open_display
    from steelyard.client import Client

    state, shown, began = choose_state_dir(state_dir), open_display(display), time.monotonic()
    folder = output or (Path("audits").resolve() if endpoint else state.path / "audits")
    with tempfile.TemporaryDirectory(prefix="steelyard-demo-") as scratch:
        try:
            there = nullcontext((endpoint, token)) if endpoint else _platform(state.path, settings, shown.say)
            with there as (address, credential):
                digits = make(Path(scratch))
                models = " and ".join(model.said for model in digits.models)
                shown.say(f"{digits.rows} handwritten digits to ask, and two models: {models}")
                with Client(endpoint=address, token=credential) as client:
                    audited = Story(client, shown, timeout).run(digits)
                    pages = [_fetch(client, one.audit, folder / one.model.name) for one in audited]
        finally:
            shown.close()
    if display != "none":
        typer.echo(closing_words(pages, None if endpoint else state.path, time.monotonic() - began))


def closing_words(pages: Sequence[Path], state: Path | None, seconds: float) -> str:
    """Return the text at the end: the results, the page and what to try next.

    `state` is the state folder; None where the platform is installed elsewhere.
    """
    from steelyard.cli.demo.results import result_lines

    page, steelyard = short_path(pages[-1]), command_name()
    if state is None:
        look = [f"  2. look around:        {steelyard} get audits --endpoint URL --token TOKEN"]
    else:
        look = [
            f"  2. start it again:     {steelyard} up --detach --state-dir {short_path(state)}",
            f"     and look around:    {steelyard} get audits --state-dir {short_path(state)}",
        ]
    return "\n".join(
        [
            "",
            f"Two models evaluated, reported on and audited in {seconds:.1f} s.",
            "",
            *result_lines([page.parent for page in pages]),
            "",
            f"Audit, compared with the weaker model: {page}",
            "",
            "Try next:",
            f"  1. open the page:      xdg-open {page}",
            *look,
            "  3. audit your own:     docs/client.md takes your data and your model through the same steps",
        ]
    )


def _fetch(client: "Client", audit: str, folder: Path) -> Path:
    """Download the audit's page, and return its path."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    client.audits.download(audit, folder)
    return folder / "index.html"


@contextmanager
def _platform(state: Path, settings: Path | None, say: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """Yield the address and token of the platform, and end it afterwards if it was started here."""
    from steelyard.local.detached import UpOptions, running, start_detached, stop
    from steelyard.local.state import StateDir, read_ready

    folder = StateDir(state)
    started = not running(folder)
    if started:
        say("starting the platform, the operator and Kubernetes ...")
        start_detached(state, UpOptions(settings=settings))
    try:
        ready = read_ready(folder)
        if ready is None or ready.api is None or ready.token is None:
            raise SteelyardError(
                f"--state-dir {state}: what runs there has no API; end it with: steelyard down --state-dir {state}"
            )
        yield ready.api, ready.token
    except KeyboardInterrupt:
        say(
            "interrupted; ending the started processes ..."
            if started
            else "interrupted; the platform runs on"
        )
        raise
    finally:
        if started:
            try:
                stop(state)
            # Ctrl-C while it is being stopped: what still runs would stay without a word.
            except KeyboardInterrupt:
                raise SteelyardError(
                    f"interrupted; end what still runs with: {command_name()} down --state-dir {state}"
                ) from None
