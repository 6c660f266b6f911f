"""`steelyard serve`: a folder of weights as an inference session of the platform on this machine."""

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import FolderOption
from steelyard.cli.extras import check_local, needs
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.client import Client
    from steelyard.local.serving.plan import ServerPlan
    from steelyard.local.state import StateDir
    from steelyard_schema.answers import InferenceSessionAndToken
    from steelyard_schema.model import Model

POLL_SECONDS = 1.0
DAYS = 365
TAIL_LINES = 12


@dataclass(frozen=True)
class ServerOptions:
    """The options that say how a model is served."""

    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the model in requests. Default: the folder's.")
    ] = None
    runner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="vllm, llama.cpp or transformers. Default: chosen by the files in the folder.",
        ),
    ] = None
    gpus: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="GPUs. Default: 1 where the runner is installed for GPUs, else 0."
        ),
    ] = None
    server_arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARGUMENT",
            help="Argument of the server, such as --server-arg=--max-model-len=4096. May be repeated.",
        ),
    ] = None

    def plan(self, folder: Path) -> "ServerPlan":
        """Return how the folder is served. Raises UsageError for a model that does not fit into memory or whose runner
        is not installed."""
        from steelyard.local.serving.plan import plan_server
        from steelyard.runners.table import choose
        from steelyard_common.errors import UsageError

        if folder.is_file():
            raise UsageError(f"{folder}: is a file; give its folder")
        kind, _ = choose(folder, self.runner)
        arguments = tuple(self.server_arg or ())
        return plan_server(folder, runner=kind.name, name=self.name, gpus=self.gpus, arguments=arguments)


@needs("local")
@with_options
def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder with safetensors and config.json, or with GGUF.")
    ],
    server: ServerOptions,
    account: Annotated[str, typer.Option(help="Account that owns model and service.")] = "me",
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once it answers; the server keeps running.")
    ] = False,
    state_dir: FolderOption = None,
) -> None:
    """Serve a model on the platform of this machine. It is started where it does not run.

    Ctrl-C ends the processes that it started. With --detach, the commands that end the session and the platform are
    printed.
    """
    import signal

    from steelyard.cli.connection import choose_state_dir

    check_local()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also ends what was started
    plan = server.plan(folder)  # before the platform is started: a mistake is reported at once
    version = f"{plan.kind.title} {plan.environment.version} ({plan.environment.variant})"
    typer.echo(f"{version} serves {plan.serving.name}: {plan.memory_text}")
    with (
        _platform(choose_state_dir(state_dir), keep=detach) as client,
        _session(client, folder, account, plan, keep=detach) as session,
    ):
        id = session.inferencesession.id
        _follow(client, id, plan)
        _greet(client, session, plan.serving.name)
        if detach:
            where = f" --state-dir {state_dir}" if state_dir else ""
            typer.echo(
                f"  end it with:           steelyard terminate isess {id}{where}\n"
                f"  and the platform with: steelyard down{where}"
            )
        else:
            _until_interrupted()


@contextmanager
def _platform(state: "StateDir", *, keep: bool) -> "Iterator[Client]":
    """Connect to the platform on a state folder, which is started where it does not run.

    Started processes are stopped in the end, also after an error; with `keep`, only after an error.
    """
    from steelyard.cli.connection import connect
    from steelyard.local.detached import running, start_detached, stop
    from steelyard.local.runners.images import enter_installed

    end = not running(state)
    if end:
        typer.echo(f"starting the platform on {state.path}")
        start_detached(state.path)
    try:
        enter_installed(state)
        with connect(None, None, state.path) as client:
            yield client
        end = end and not keep
    finally:
        if end:
            stop(state.path)


@contextmanager
def _session(
    client: "Client", folder: Path, account: str, plan: "ServerPlan", *, keep: bool
) -> "Iterator[InferenceSessionAndToken]":
    """Run a session of the folder's model, and terminate it in the end; with `keep`, only after an error."""
    session = _start_session(client, folder, account, plan)
    end = True
    try:
        yield session
        end = not keep
    # Also for Ctrl-C: a session that is left behind would hold its GPUs for a year.
    finally:
        if end:
            client.inferencesessions.terminate(session.inferencesession.id)


def _start_session(
    client: "Client", folder: Path, account: str, plan: "ServerPlan"
) -> "InferenceSessionAndToken":
    """Upload the weights, describe the service, and start a replica of it."""
    from datetime import UTC, datetime, timedelta

    from steelyard.cli.transfer import _progress
    from steelyard.client import presets

    name, serving = plan.serving.name, plan.serving
    model = _find_upload(client, folder, account, name)
    if model is not None:
        typer.echo(f"model {model.id} has the same files: nothing is uploaded")
    else:
        with _progress("uploading") as progress:
            model = client.models.create_from_folder(folder, account=account, name=name, progress=progress)
    preset = {"vllm": presets.vllm, "llama.cpp": presets.llama_cpp, "transformers": presets.transformers}
    memory = f"{serving.memory >> 20}Mi" if serving.memory and not serving.gpus else None
    arguments = list(serving.arguments)
    # vLLM's `auto` takes weights of 32 bits as 16; the plan has counted the memory of what it says.
    if plan.kind.name == "vllm" and serving.precision == "float32":
        arguments = ["--dtype", "float32", *arguments]
    runner = preset[plan.kind.name](model.id, *arguments, memory=memory, gpus=serving.gpus)
    service = client.inferenceservices.create(
        account=account, name=name, model=model.id, runner=runner, interface=presets.chat()
    )
    # A session must have an end; a user who serves a model on their own machine wants none.
    expires = datetime.now(UTC) + timedelta(days=DAYS)
    return client.inferencesessions.create(account=account, inferenceService=service.id, expires=expires)


def _find_upload(client: "Client", folder: Path, account: str, name: str) -> "Model | None":
    """Return a model of this account and name that has just the folder's files, by their digests."""
    from steelyard.client.files import list_volume, name_files

    paths = name_files(folder)
    sizes = {path: file.stat().st_size for path, file in paths.items()}
    digests: dict[str, str | None] | None = None
    for model in client.models.query(account=account, name=name, status="Ready"):
        files = model.artifact.volume.files if model.artifact.volume is not None else []
        # Sizes first: they cost nothing, and digests of large weights take minutes.
        if {file.path: file.size for file in files} != sizes:
            continue
        if digests is None:
            digests = {file.path: file.digest.md5 for file in list_volume(paths)}
        if {file.path: file.digest.md5 for file in files} == digests:
            return model
    return None


def _follow(client: "Client", id: str, plan: "ServerPlan") -> None:
    """Say how far the start is until a replica answers. Raises SteelyardError with the last lines where it fails."""
    import time

    from steelyard_common.errors import SteelyardError
    from steelyard_schema.status import TERMINAL

    began, said = time.monotonic(), set[str]()
    while True:
        ready = client.inferencesessions.ready(id)  # first: a log that is read afterwards has the whole start
        session = client.inferencesessions.get(id)
        lines = [line.message or "" for line in client.inferencesessions.logs(id, limit=10000).logs]
        stages = [stage for line in lines if (stage := plan.kind.stage(line))]
        for text in (*stages, "" if ready else session.message or ""):
            if text and text not in said:
                said.add(text)
                typer.echo(text)
        if ready:
            break
        if session.status in TERMINAL or session.status == "Error":
            end = "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])
            raise SteelyardError(f"{session.reason}: {session.message}\n  The end of its log:\n{end}")
        time.sleep(POLL_SECONDS)
    typer.echo(f"ready after {time.monotonic() - began:.0f} s")


def _greet(client: "Client", session: "InferenceSessionAndToken", name: str) -> None:
    id = session.inferencesession.id
    url = f"{client.endpoint}/inferencesessions/{id}/infer/v1"
    typer.echo(
        f"  URL:    {url}\n  token:  {session.token}\n  model:  {name}\n"
        f"  ask it: OPENAI_API_KEY=TOKEN steelyard eval run PROMPTS --url {url} --model {name}"
    )


def _until_interrupted() -> None:
    import contextlib
    import signal

    typer.echo("Ctrl-C ends it")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            signal.pause()
