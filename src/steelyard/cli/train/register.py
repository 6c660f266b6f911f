"""`steelyard train register`: the output of a training job as a Model of the platform. `train run` calls it, too.

The files come from storage, where the operator has carried them, each checked against its digest. One job makes one
Model, however often it is asked for: its uid is the key of the request.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.train.cluster import ClusterOptions, ClusterTarget, JobArgument, on, on_cluster
from steelyard_common.types import mapping

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.clusters.training.view import JobView
    from steelyard.local.state import StateDir
    from steelyard_kube.client import RestCluster
    from steelyard_schema.model import Model

OUTPUT_SECONDS = 600.0
"""Time limit in seconds for the output of a job that has succeeded to be carried to storage."""
PLATFORM = "Platform"
"""Value of the annotation OUTPUT_REGISTER: the operator carries the output to storage, we make the Model."""


@on_cluster
def register(
    job: JobArgument,
    account: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Account that owns the Model. Default: the namespace of the job."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the Model. Default: the one that the job names."),
    ] = None,
    *,
    cluster: ClusterOptions,
) -> None:
    """Make a Model of the output of a job. It is made on the platform of this machine.

    Calling it again changes nothing.
    """
    from steelyard.clusters.training import jobs
    from steelyard.clusters.training.watching import wait

    place = cluster.find()

    async def work(api: "RestCluster") -> "Model":
        view = await jobs.find(api, job, place.namespace)
        # The job succeeds first, and its output is carried to storage afterwards.
        if view.output_model and not view.output_settled:
            view = await wait(
                api,
                view,
                until=lambda job: job.output_settled or job.state == "Failed",
                timeout=OUTPUT_SECONDS,
            )
        return await register_model(view, place, account, name)

    model = on(place, work)
    typer.echo(f"model: {model.name} ({model.id})")


def runs_at(place: ClusterTarget) -> bool:
    """Return whether the platform, which keeps Models, runs on this machine."""
    from steelyard.local.state import read_platform

    return place.state is not None and read_platform(place.state)[0] is not None


async def register_model(
    job: "JobView", place: ClusterTarget, account: str | None = None, name: str | None = None
) -> "Model":
    """Return the Model of a job's output. Raises UsageError where there is none, or no platform to keep it."""
    import asyncio
    import tempfile
    from pathlib import Path

    from steelyard_common.errors import UsageError

    outputs = job.outputs
    if "location" not in outputs or outputs.get("state") not in {"Carried", "Registered"}:
        raise UsageError(f"{job.name}: has no output in storage{_no_model_reason(job)}")
    if place.state is None or not runs_at(place):
        raise UsageError("no platform runs on this machine; start it with: steelyard up --detach")
    # By way of this machine: the platform takes files by signed URLs only, and checks them as it does every
    # upload.
    with tempfile.TemporaryDirectory(prefix="steelyard-model-") as scratch:
        folder = Path(scratch) / "model"
        await _fetch(str(outputs["location"]), place.state, folder)
        return await asyncio.to_thread(_upload, job, place.state, folder, account, name)


def _no_model_reason(job: "JobView") -> str:
    if message := job.outputs.get("message"):
        return f": {message}"
    if job.output_model:
        return f": it is {job.state}, and only that of a job that has succeeded is kept"
    return "; run it with --output-model NAME"


async def _fetch(location: str, state: "StateDir", folder: "Path") -> None:
    from steelyard.settings import load
    from steelyard.steps.common import StepFailed
    from steelyard.steps.fetch_volume import copy
    from steelyard_common.errors import SteelyardError
    from steelyard_evaluation.storage.store import open_store
    from steelyard_schema.locations import complete_location

    try:
        await copy(open_store(complete_location(location, load(None, state.path).storage)), folder)
    except StepFailed as error:
        raise SteelyardError(f"the output cannot be read: {error.message}") from error


def _upload(
    job: "JobView", state: "StateDir", folder: "Path", account: str | None, name: str | None
) -> "Model":
    from steelyard.client import Client
    from steelyard.local.state import read_platform

    outputs = job.outputs
    with Client(*read_platform(state)) as client:
        model = client.models.create_from_folder(
            folder,
            account=account or job.namespace,
            name=name or str(outputs["model"]),
            # By uid: a job that was deleted and made again under its name is another one.
            idempotency_key=f"training-{job.uid}",
        )
        client.models.label(model.id, {"training-job": job.name, "training-job-uid": job.uid})
        title = f"Trained by {job.kind} {job.namespace}/{job.name}"
        client.models.edit_documentation(model.id, title=title[:140], fullPage=_lineage(job))
        return model


def _lineage(job: "JobView") -> str:
    """The origin of the Model, for a reader."""
    digests = [f"* {what}: `{digest}`" for what, digest in sorted(mapping(job.outputs, "digests").items())]
    results = [f"* {what}: {value}" for what, value in sorted(job.results.items())]
    said = ["", "It said:", "", *results] if results else []
    return "\n".join([f"Job uid `{job.uid}`. Digests:", "", *digests, *said, ""])
