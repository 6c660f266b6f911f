"""The work of `steelyard train run`: it finds or starts a platform, makes the job, follows it, and says how it ends."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from steelyard.cli.connection import choose_state_dir, command_name, short_path
from steelyard.cli.extras import check_local
from steelyard.cli.train import framework_file, program, register, wording
from steelyard.cli.train.cluster import ClusterOptions, ClusterTarget, on
from steelyard.cli.train.foreground import EXIT_INTERRUPTED, ForegroundEnd, Session
from steelyard.cli.train.screen import Screen, open_screen
from steelyard.clusters.names import OUTPUT_CLAIM, OUTPUT_MODEL, OUTPUT_REGISTER
from steelyard.clusters.training import jobs
from steelyard.clusters.training.frameworks import BY_NAME, TrainingFramework
from steelyard.clusters.training.manifest import (
    JobRequest,
    Program,
    RestartPolicy,
    RestartScope,
    check_name,
    fresh_name,
    manifest,
)
from steelyard.clusters.training.view import JobView
from steelyard.clusters.training.watching import wait
from steelyard_common.errors import SteelyardError, UsageError
from steelyard_common.types import Json

if TYPE_CHECKING:
    from steelyard_kube.client import RestCluster


class Interrupted(SteelyardError):
    """Ctrl-C while there was no job to ask about."""

    exit_code = EXIT_INTERRUPTED


@dataclass(frozen=True)
class TrainingRequest:
    """The command's arguments."""

    script: program.Script
    framework: str | None = None
    workers: int = 1
    replicas: Mapping[str, int] = field(default_factory=dict)
    python: Path | None = None
    image: str | None = None
    files: tuple[Path, ...] = ()
    name: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    restart: str = "ExitCode"
    restart_scope: str | None = None
    backoff_limit: int | None = None
    deadline: int | None = None
    output_model: str | None = None
    output_claim: str | None = None
    detach: bool = False


def execute(training: TrainingRequest, cluster: ClusterOptions, *, dry_run: bool, display: str | None) -> int:
    """Run it; the exit status."""
    screen = open_screen("none" if dry_run else display)
    running = cluster.running()
    training = _complete(training, here=running is None or running.state is not None)
    if dry_run:
        return _dry(training, running, cluster)
    with _platform(training, running, cluster, screen) as (place, keep):
        ended = on(place, lambda api: _run(training, place, api, screen))
        if ended.detached:
            keep()
        elif running is None and ended.exit_code:
            screen.say(f"  first, what ends with this command: {place.up}")
    return ended.exit_code


def _complete(training: TrainingRequest, *, here: bool) -> TrainingRequest:
    """Complete and check what can be checked before anything is started. Raises UsageError."""
    if training.output_claim and not training.output_model:
        raise UsageError("--output-claim: is for an output; name its Model with --output-model")
    if training.output_claim and here:
        raise UsageError(
            "--output-claim: is for a cluster; on this machine the output has a folder of its own"
        )
    framework = training.framework or program.guess(training.script).name
    python = training.python
    if here and training.image is None:
        python = program.check_python(training.script, framework, python)
    name = training.name or fresh_name(training.script.path.stem)
    # A Framework of a cluster may count its roles otherwise: its operator checks the name.
    if known := BY_NAME.get(framework.lower()):
        check_name(name, known.replicas(training.workers, training.replicas))
    return replace(training, framework=framework, python=python, name=name)


@contextmanager
def _platform(
    training: TrainingRequest, running: ClusterTarget | None, cluster: ClusterOptions, screen: Screen
) -> Iterator[tuple[ClusterTarget, Callable[[], None]]]:
    """The place, and what keeps a platform that was started here beyond the end of this command."""
    kept = False
    # A platform that was there before is never ended here.
    if running is not None:
        yield running, lambda: None
        return
    from steelyard.local.detached import UpOptions as Started
    from steelyard.local.detached import start_detached, stop

    def keep() -> None:
        nonlocal kept
        kept = True
        screen.say(f"  end all of it: {command_name()} down --state-dir {state.path}")

    check_local()
    state = choose_state_dir(cluster.state_dir)
    screen.say(f"starting Kubernetes and the operator in {short_path(state.path)} ...")
    # The platform takes seconds to start, and only Models and later commands have use for it.
    alone = () if training.output_model or training.detach else ("platform",)
    start_detached(state.path, Started(without=alone))
    try:
        yield cluster.place(state.kubeconfig, state), keep
    except KeyboardInterrupt:
        screen.close()
        raise Interrupted("interrupted; ending the started processes ...") from None
    finally:
        screen.close()
        if not kept:
            stop(state.path)


def _dry(training: TrainingRequest, running: ClusterTarget | None, cluster: ClusterOptions) -> int:
    """Print the manifest. Nothing is started or written for it; a cluster that runs is asked for its Framework."""
    if running is not None:
        return on(running, lambda api: _print_manifest(training, running, api))
    state = choose_state_dir(cluster.state_dir)
    return asyncio.run(_print_manifest(training, cluster.place(state.kubeconfig, state), None))


async def _print_manifest(training: TrainingRequest, place: ClusterTarget, api: "RestCluster | None") -> int:
    import yaml

    name = training.framework or ""
    framework_of_job = await framework_file.framework(api, name, apply=False)
    made, files = _manifest(training, place, framework_of_job, dry=True)
    documents = [made] if files is None else [files, made]
    if framework_file.is_file(name):
        # The job waits for its Framework, so that the manifest is whole only with it.
        framework = framework_file.read(Path(name))
        framework_file.check_job(made, framework)
        framework_file.check_definitions(framework, made)
        documents.insert(0, framework)
    print(yaml.safe_dump_all(documents, sort_keys=False), end="")
    _print_missing_entry(training, place)
    return 0


def _print_missing_entry(training: TrainingRequest, place: ClusterTarget) -> None:
    """Print on standard error the entry of `images.toml` that the manifest's image needs and this machine lacks."""
    from steelyard.cli.train.python_image import missing_entry

    if place.state is None or training.image is not None or training.python is None:
        return
    if (entry := missing_entry(place.state, training.python)) is not None:
        images = short_path(place.state.images)
        print(
            f"before you apply it, add the image of this Python to {images}:\n{entry}",
            end="",
            file=sys.stderr,
        )


async def _run(
    training: TrainingRequest, place: ClusterTarget, api: "RestCluster", screen: Screen
) -> ForegroundEnd:
    framework = await framework_file.framework(api, training.framework or "", apply=True)
    job_manifest, files = _manifest(training, place, framework, dry=False)
    job = await jobs.submit(api, job_manifest, files)
    words = " ".join([str(training.script.path), *training.script.arguments])
    command = f"python {words}" if training.script.is_python else words
    screen.say(f"{wording.full_name(job)}: {wording.replicas(job)}, each {command}")
    if training.detach:
        # No command waits for the output of a detached job: the user makes the Model by this command.
        waits = training.output_model and register.runs_at(place)
        hint = f"\n  its model:  {place.command(f'register {job.name}')}" if waits else ""
        screen.ends(
            {"exit": 0, "job": job.name, "detached": True},
            f"  follow it:  {place.command(f'logs -f {job.name}')}\n"
            f"  its state:  {place.command(f'describe {job.name}')}\n"
            f"  stop it:    {place.command(f'stop {job.name}')}{hint}",
        )
        return ForegroundEnd(job, 0, detached=True)
    ended = await Session(api, job, place, screen).run()
    if ended.detached or not ended.job.finished:
        return ended
    return await _report_end(ended, place, api, screen)


def _manifest(
    training: TrainingRequest, place: ClusterTarget, framework: TrainingFramework, *, dry: bool
) -> tuple[Json, Json | None]:
    """The job, and the ConfigMap with its files where they have to travel."""
    name, files = training.name or "", None
    if place.state is not None:
        if training.files:
            raise UsageError("--file: is for a cluster; on this machine the script runs in its own folder")
        what = program.on_this_machine(
            training.script, place, training.python or Path(), training.image, dry=dry
        )
    else:
        what = program.on_a_cluster(training.script, training.image)
        files = program.files(training.script, name, place.namespace, training.files)
    request = _request(training, name, place, framework, what)
    if files is not None:
        request = replace(request, code=program.volume(files))
    return manifest(request), files


def _request(
    training: TrainingRequest, name: str, place: ClusterTarget, framework: TrainingFramework, what: Program
) -> JobRequest:
    annotations = training.script.annotations
    if training.output_model:
        annotations[OUTPUT_MODEL] = training.output_model
        if training.output_claim:
            annotations[OUTPUT_CLAIM] = training.output_claim
        if register.runs_at(place):
            annotations[OUTPUT_REGISTER] = register.PLATFORM
    request = JobRequest(
        name=name,
        framework=framework,
        program=what,
        workers=training.workers,
        replicas=training.replicas,
        namespace=place.namespace,
        restart=cast("RestartPolicy", training.restart),  # `manifest` refuses what is none
        restart_scope=cast("RestartScope | None", training.restart_scope),
        backoff_limit=training.backoff_limit,
        deadline=training.deadline,
        annotations=annotations,
    )
    environment = {**what.environment, **training.environment}
    if "PYTHONPATH" in training.environment:  # the user's own first, and still `steelyard.progress`
        environment["PYTHONPATH"] += f":{what.environment['PYTHONPATH']}"
    if place.state is not None:
        environment = program.threads(sum(request.counts.values()), training.environment) | environment
    return replace(request, program=replace(what, environment=environment, resources=training.resources))


async def _report_end(
    ended: ForegroundEnd, place: ClusterTarget, api: "RestCluster", screen: Screen
) -> ForegroundEnd:
    """The last words; of a job that promised a Model, once it is there."""
    job, code = ended.job, ended.exit_code
    if job.state == "Succeeded" and job.output_model:
        screen.say(f"{wording.end_text(job)}\nkeeping its output ...")
        job = await wait(api, job, until=lambda now: now.output_settled, timeout=register.OUTPUT_SECONDS)
        code = 0 if job.outputs.get("state") != "Failed" else 1
        text = f"model: {wording.output(job)}"
        if job.outputs.get("state") == "Carried" and register.runs_at(place):
            model = await register.register_model(job, place)
            text = f"model: {model.name} ({model.id})"
    else:
        text = wording.end_text(job)
    if code:
        text += f"\n  more: {place.command(f'describe {job.name}')}"
    screen.ends(_result(job, code), text, bad=bool(code))
    return replace(ended, job=job, exit_code=code)


def _result(job: JobView, code: int) -> Json:
    return {
        "exit": code,
        "job": job.name,
        "kind": job.kind,
        "state": job.state,
        "restarts": job.restarts,
        "results": job.results,
        "outputs": job.outputs,
    }
